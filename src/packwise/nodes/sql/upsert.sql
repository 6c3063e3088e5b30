-- Adds the nodes of packwise_incoming, or replaces those of the same tenant, data set and key. When
-- several rows have the same key, the last one counts. Rows are written in the order of their keys,
-- so that two writers never wait for each other. Returns whether each node is new; a node that did
-- not change is not returned.

INSERT INTO {nodes} AS k (tenant_id, dataset_name, node_type, node_key, title, summary,
    content_description, content, metadata, embedding, embedder_version, content_hash)
SELECT DISTINCT ON (tenant_id, dataset_name, node_key) tenant_id, dataset_name, node_type, node_key,
    title, summary, content_description, content, metadata, embedding, embedder_version,
    content_hash
FROM pg_temp.packwise_incoming ORDER BY tenant_id, dataset_name, node_key, nth DESC
ON CONFLICT (tenant_id, dataset_name, node_key) DO UPDATE SET
    node_type = excluded.node_type, title = excluded.title, summary = excluded.summary,
    content_description = excluded.content_description, content = excluded.content,
    metadata = excluded.metadata, embedding = excluded.embedding,
    embedder_version = excluded.embedder_version, content_hash = excluded.content_hash
WHERE k.content_hash <> excluded.content_hash
    OR k.embedder_version <> excluded.embedder_version
    OR (excluded.embedding IS NOT NULL AND k.embedding IS DISTINCT FROM excluded.embedding)
RETURNING k.xmax = 0;
