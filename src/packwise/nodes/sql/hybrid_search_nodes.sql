-- Functions of nodes: the function of specification 004, for any client of the database.

CREATE OR REPLACE FUNCTION hybrid_search_nodes(
    query_text text,
    query_embedding vector,
    tenant_ids text[],
    node_types text[],
    top_k integer DEFAULT 20,
    bm25_weight double precision DEFAULT 0.4,
    vector_weight double precision DEFAULT 0.6,
    min_score double precision DEFAULT 0
) RETURNS TABLE (
    node_id integer,
    bm25_score double precision,
    vector_score double precision,
    combined_score double precision,
    relevance double precision
) LANGUAGE sql STABLE SECURITY INVOKER ROWS 20 SET search_path FROM CURRENT AS $$
    SELECT s.node_id, s.bm25_score, s.vector_score, s.combined_score, s.relevance
    FROM packwise_search_nodes(query_text, query_embedding, tenant_ids, node_types,
        NULL::text[], top_k, bm25_weight, vector_weight, min_score, 'weighted', false) AS s
    ORDER BY s.final_score DESC, s.node_id
$$;
