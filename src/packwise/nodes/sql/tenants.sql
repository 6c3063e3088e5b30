-- Step 1 of nodes: row-level security, forced for the owner too.
--
-- The setting packwise.tenants names the tenants whose rows a transaction may read and write.

CREATE FUNCTION packwise_tenants() RETURNS text[] LANGUAGE sql STABLE SECURITY INVOKER
    AS $$ SELECT nullif(current_setting('packwise.tenants', true), '')::text[] $$;

ALTER TABLE knowledge_nodes ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_nodes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON knowledge_nodes
    USING (tenant_id = ANY ((SELECT packwise_tenants())::text[]));
ALTER TABLE knowledge_groups ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_groups FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON knowledge_groups
    USING (tenant_id = ANY ((SELECT packwise_tenants())::text[]));
ALTER TABLE knowledge_postings ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_postings FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON knowledge_postings
    USING (group_id = ANY (ARRAY(SELECT g.group_id FROM knowledge_groups AS g)));
ALTER TABLE knowledge_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON knowledge_terms
    USING (group_id = ANY (ARRAY(SELECT g.group_id FROM knowledge_groups AS g)));
ALTER TABLE knowledge_totals ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_totals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON knowledge_totals
    USING (group_id = ANY (ARRAY(SELECT g.group_id FROM knowledge_groups AS g)));
