-- Functions of nodes: the tenants whose rows a transaction may read and write, which every policy
-- asks for. They are those of the setting packwise.tenants. A login that is bound to tenants sees
-- no others, whatever it sets; if it sets none, it sees all of its own.
--
-- A search asks about ten times: PL/pgSQL keeps the plan, SQL would plan it each time.

CREATE OR REPLACE FUNCTION packwise_tenants() RETURNS text[]
    LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path FROM CURRENT AS $$
DECLARE
    named text[] := nullif(current_setting('packwise.tenants', true), '')::text[];
    bound text[] := ARRAY(SELECT b.tenant_id FROM knowledge_bindings AS b
        WHERE b.role_name = current_user);
BEGIN
    IF bound = '{}' THEN
        RETURN named;
    END IF;
    RETURN ARRAY(SELECT t FROM unnest(bound) AS t WHERE named IS NULL OR t = ANY (named));
END $$;
