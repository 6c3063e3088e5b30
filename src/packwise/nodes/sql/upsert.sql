-- Adds the nodes of packwise_incoming, or replaces those of the same tenant and key. When several
-- rows have the same key, the last one counts.

INSERT INTO knowledge_nodes AS k (tenant_id, dataset_name, node_type, node_key, title, summary,
    content_description, content, metadata, embedding, embedder_version, content_hash)
SELECT tenant_id, dataset_name, node_type, node_key, title, summary, content_description, content,
    metadata, embedding, embedder_version, content_hash
FROM (SELECT DISTINCT ON (tenant_id, node_key) * FROM packwise_incoming
    ORDER BY tenant_id, node_key, nth DESC) AS last_of_key ORDER BY nth
ON CONFLICT (tenant_id, node_key) DO UPDATE SET dataset_name = excluded.dataset_name,
    node_type = excluded.node_type, title = excluded.title, summary = excluded.summary,
    content_description = excluded.content_description, content = excluded.content,
    metadata = excluded.metadata, embedding = excluded.embedding,
    embedder_version = excluded.embedder_version, content_hash = excluded.content_hash
WHERE k.content_hash <> excluded.content_hash
    OR k.embedder_version <> excluded.embedder_version
    OR (excluded.embedding IS NOT NULL AND k.embedding IS DISTINCT FROM excluded.embedding);
