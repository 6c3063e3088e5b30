-- Takes away from a role what grants.sql has given it, and nothing else: it may work with other tables
-- of the schema.
--
-- Parameters: role, role_name (the same as text), functions (their names).

REVOKE ALL ON knowledge_nodes, knowledge_groups, knowledge_postings, knowledge_terms,
    knowledge_totals, knowledge_relevance, packwise_settings, packwise_migrations FROM {role};
DO $$
DECLARE
    found text;
BEGIN
    FOR found IN
        SELECT p.oid::regprocedure::text FROM pg_proc AS p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
            AND p.proname = ANY ({functions}::text[])
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I', found, {role_name});
    END LOOP;
END $$;
