-- Step 1 of nodes: the function of specification 004, for any client of the database.

CREATE FUNCTION hybrid_search_nodes(
    query_text text,
    query_embedding vector,
    tenant_ids text[],
    node_types text[],
    top_k integer DEFAULT 20,
    bm25_weight double precision DEFAULT 0.4,
    vector_weight double precision DEFAULT 0.6
) RETURNS TABLE (
    node_id integer,
    bm25_score double precision,
    vector_score double precision,
    combined_score double precision
) LANGUAGE sql STABLE SECURITY INVOKER ROWS 20 SET search_path FROM CURRENT AS $$
    SELECT s.node_id, s.bm25_score, s.vector_score, s.combined_score
    FROM packwise_search_nodes(query_text, query_embedding, tenant_ids, node_types,
        NULL::text[], top_k, bm25_weight, vector_weight, 'weighted', false) AS s
    ORDER BY s.final_score DESC, s.node_id
$$;
