-- What a store's information shows beside its state.

SELECT (SELECT count(*) FROM packwise_staged), (SELECT count(*) FROM packwise_links),
    (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c
        WHERE c.relkind = 'r' AND c.relnamespace = quote_ident(current_schema())::regnamespace
        AND c.relname LIKE 'packwise\_%'),
    current_setting('server_version'), current_schema(),
    to_regclass('packwise_passages_embedding') IS NOT NULL
