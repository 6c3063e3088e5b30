-- Functions of nodes: what a role that works with nodes may do. It owns nothing.
--
-- Parameters: role, role_name (the same as text), functions (their names).

REVOKE ALL ON knowledge_nodes, knowledge_groups, knowledge_postings, knowledge_terms,
    knowledge_totals, knowledge_relevance, packwise_settings FROM PUBLIC;
-- Everyone sees only their own.
GRANT SELECT ON knowledge_bindings TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_nodes, knowledge_groups, knowledge_postings,
    knowledge_terms, knowledge_totals TO {role};
GRANT SELECT ON packwise_settings, packwise_migrations, knowledge_relevance TO {role};

DO $$
DECLARE
    role text := {role_name};
    found text;
BEGIN
    FOR found IN
        SELECT p.oid::regprocedure::text FROM pg_proc AS p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace 
            AND p.proname = ANY ({functions}::text[])
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', found);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', found, role);
    END LOOP;
    -- The schemas of the tables and of the extensions.
    FOR found IN
        SELECT current_schema() UNION
        SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname IN ('vector', 'pg_textsearch')
    LOOP
        IF NOT has_schema_privilege(role, found, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found, role);
        END IF;
    END LOOP;
    -- Nodes are written through a temporary table.
    IF NOT has_database_privilege(role, current_database(), 'TEMP') THEN
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO %I', current_database(), role);
    END IF;
    -- pg_textsearch lets everyone look into its indexes, whichever tenants' rows they contain.
    FOR found IN
        SELECT p.oid::regprocedure::text FROM pg_proc AS p JOIN pg_depend AS d
            ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension AS e ON e.oid = d.refobjid
        WHERE e.extname = 'pg_textsearch'
            AND p.proname LIKE ANY (ARRAY['bm25\_dump%', 'bm25\_summarize%'])
            AND has_function_privilege('public', p.oid, 'EXECUTE')
            AND pg_has_role(p.proowner, 'USAGE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', found);
    END LOOP;
END $$;
