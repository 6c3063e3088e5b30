-- A temporary table for the nodes of one write; nth is their order.

CREATE TEMP TABLE packwise_incoming ON COMMIT DROP AS
SELECT 0 AS nth, tenant_id, dataset_name, node_type, title, summary, content_description, content,
    node_key, metadata, embedding, embedder_version, content_hash
FROM {nodes} WITH NO DATA;
