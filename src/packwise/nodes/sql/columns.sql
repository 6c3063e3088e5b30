-- The columns that this user may read, in every schema or in the named ones; Packwise's own tables
-- and those of extensions are left out.

SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    coalesce(col_description(c.oid, a.attnum), ''), coalesce(obj_description(c.oid), ''),
    a.attnotnull,
    EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary
        AND a.attnum = ANY (i.indkey)),
    f.nspname, f.relname, f.attname, f.conname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN LATERAL (
    -- The column that this one refers to: of a key of several columns, the one at its place.
    SELECT rn.nspname, r.relname, ra.attname, k.conname FROM pg_constraint AS k
    JOIN pg_class AS r ON r.oid = k.confrelid JOIN pg_namespace AS rn ON rn.oid = r.relnamespace
    JOIN pg_attribute AS ra ON ra.attrelid = r.oid
        AND ra.attnum = k.confkey[array_position(k.conkey, a.attnum)]
    WHERE k.conrelid = c.oid AND k.contype = 'f' AND a.attnum = ANY (k.conkey)
        AND k.conparentid = 0
    ORDER BY cardinality(k.conkey), k.conname LIMIT 1
) AS f ON true
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_%%'
    AND (%(schemas)s::text[] = '{}' OR n.nspname = ANY (%(schemas)s::text[]))
    AND NOT (EXISTS (SELECT FROM pg_class AS m WHERE m.relnamespace = n.oid
            AND m.relname = 'packwise_migrations')
        AND (c.relname LIKE 'packwise\_%%' OR c.relname = ANY (ARRAY['knowledge_nodes',
            'knowledge_groups', 'knowledge_postings', 'knowledge_terms', 'knowledge_totals',
            'knowledge_bindings', 'knowledge_relevance', 'knowledge_sizes'])))
    AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
    AND has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY n.nspname, c.relname, a.attnum;
