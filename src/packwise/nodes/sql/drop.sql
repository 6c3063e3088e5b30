-- Removes everything that belongs to nodes from the current schema; passages stay.

DROP TABLE IF EXISTS knowledge_nodes, knowledge_groups, knowledge_postings, knowledge_terms,
    knowledge_totals, knowledge_bindings, knowledge_relevance, knowledge_sizes, packwise_settings
    CASCADE;
DO $$
DECLARE
    found text;
BEGIN
    FOR found IN
        SELECT p.oid::regprocedure::text FROM pg_proc AS p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
        AND p.proname = ANY (ARRAY['packwise_words', 'packwise_tenants', 'packwise_sum_totals',
            'packwise_nodes_added', 'packwise_nodes_removed', 'packwise_nodes_changed',
            'packwise_nodes_emptied', 'packwise_node_touched', 'packwise_embedded_text',
            'packwise_band', 'packwise_keyword_leg', 'packwise_vector_leg',
            'packwise_search_nodes', 'hybrid_search_nodes'])
    LOOP
        EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', found);
    END LOOP;
END $$;
DELETE FROM packwise_migrations WHERE component = 'nodes';
