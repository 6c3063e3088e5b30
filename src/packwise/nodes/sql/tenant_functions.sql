-- Functions of nodes: the tenants whose rows a transaction may read and write, which every policy
-- asks for. They are those of the setting packwise.tenants. A login that is bound to tenants sees
-- no others, whatever it sets; if it sets none, it sees all of its own.

CREATE OR REPLACE FUNCTION packwise_tenants() RETURNS text[]
    LANGUAGE sql STABLE SECURITY INVOKER SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN bound.tenants IS NULL THEN named.tenants
        ELSE ARRAY(SELECT t FROM unnest(bound.tenants) AS t
            WHERE named.tenants IS NULL OR t = ANY (named.tenants)) END
    FROM (SELECT nullif(current_setting('packwise.tenants', true), '')::text[] AS tenants) AS named,
        (SELECT array_agg(b.tenant_id) AS tenants FROM knowledge_bindings AS b
            WHERE b.role_name = current_user) AS bound $$;
