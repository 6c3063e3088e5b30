-- Step 2 of nodes: keys that are unique per tenant and data set, and the logins that are bound to
-- tenants.

ALTER TABLE knowledge_nodes DROP CONSTRAINT knowledge_nodes_tenant_id_node_key_key;
ALTER TABLE knowledge_nodes ADD CONSTRAINT knowledge_nodes_key
    UNIQUE (tenant_id, dataset_name, node_key);

-- The functions that follow have other parameters now.
DROP FUNCTION IF EXISTS hybrid_search_nodes(text, vector, text[], text[], integer,
    double precision, double precision);
DROP FUNCTION IF EXISTS packwise_search_nodes(text, vector, text[], text[], text[], integer,
    double precision, double precision, text, boolean);

CREATE TABLE knowledge_bindings (
    role_name name NOT NULL,
    tenant_id text NOT NULL,
    PRIMARY KEY (role_name, tenant_id)
);
ALTER TABLE knowledge_bindings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON knowledge_bindings USING (role_name = current_user);

CREATE TABLE knowledge_sizes (
    measured_at timestamptz PRIMARY KEY DEFAULT clock_timestamp(),
    nodes bigint NOT NULL,
    bytes bigint NOT NULL
);
