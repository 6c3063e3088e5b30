-- Removes everything that belongs to nodes from the current schema; passages stay. What others have
-- made of it, such as a view, is not removed: then this fails.
--
-- Parameters: functions (their names).

DROP FUNCTION IF EXISTS packwise_embedded_text(knowledge_nodes);
DROP TABLE IF EXISTS knowledge_nodes, knowledge_groups, knowledge_postings, knowledge_terms,
    knowledge_totals, knowledge_bindings, knowledge_relevance, knowledge_sizes, packwise_settings;
DO $$
DECLARE
    found text;
BEGIN
    FOR found IN
        SELECT p.oid::regprocedure::text FROM pg_proc AS p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
            AND p.proname = ANY ({functions}::text[])
    LOOP
        EXECUTE format('DROP FUNCTION %s', found);
    END LOOP;
    DELETE FROM packwise_migrations WHERE component = 'nodes';
    IF NOT EXISTS (SELECT FROM packwise_migrations) THEN
        DROP TABLE packwise_migrations;
    END IF;
END $$;
