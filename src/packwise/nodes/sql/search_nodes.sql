-- Functions of nodes: hybrid search with every score and filter that Packwise needs.
--
-- For few nodes, planning would cost more than searching. What is read here is found by its id, so
-- one plan does for all queries. Without sequential scans, it stays right when the tables grow.
--
-- Parameters: dim, k1, b.

CREATE OR REPLACE FUNCTION packwise_search_nodes(query_text text, query_embedding vector,
        tenant_ids text[], node_types text[], dataset_names text[], top_k integer,
        bm25_weight double precision, vector_weight double precision, min_score double precision,
        fusion text, exact boolean)
    RETURNS TABLE (node_id integer, bm25_score double precision, vector_score double precision,
        keyword_score double precision, combined_score double precision,
        relevance double precision, final_score double precision)
    LANGUAGE plpgsql STABLE SECURITY INVOKER ROWS 20 SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    groups integer[]; all_nodes bigint; all_terms bigint; all_vectors bigint;
    depth integer := least(greatest(100, least(2 * top_k::bigint, top_k::bigint + 1000)),
        2147483647);
    by_keyword double precision; by_vector double precision;
BEGIN
    IF vector_dims(query_embedding) <> {dim} THEN
        RAISE EXCEPTION 'expected {dim} dimensions, not %', vector_dims(query_embedding)
            USING ERRCODE = 'data_exception';
    END IF;
    IF NOT coalesce(bm25_weight >= 0 AND vector_weight >= 0
        AND bm25_weight + vector_weight BETWEEN 1e-300 AND 1e300, false)
    THEN
        RAISE EXCEPTION 'weights must be finite, 0 or more, and not both 0'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT coalesce(min_score BETWEEN 0 AND 1, false) THEN
        RAISE EXCEPTION 'min_score must be 0 to 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    node_types := nullif(node_types, '{}'::text[]);
    dataset_names := nullif(dataset_names, '{}'::text[]);
    SELECT array_agg(DISTINCT t.group_id), sum(t.nodes), sum(t.terms), sum(t.vectors)
        INTO groups, all_nodes, all_terms, all_vectors
        FROM knowledge_totals AS t WHERE t.group_id = ANY (ARRAY(
            SELECT g.group_id FROM knowledge_groups AS g WHERE g.tenant_id = ANY (tenant_ids)
            AND (node_types IS NULL OR g.node_type = ANY (node_types))
            AND (dataset_names IS NULL OR g.dataset_name = ANY (dataset_names))));
    IF groups IS NULL OR coalesce(top_k, 0) <= 0 THEN
        RETURN;
    END IF;
    -- A leg without a query has no weight.
    by_keyword := CASE WHEN coalesce(query_text, '') = '' THEN 0 ELSE bm25_weight END;
    by_vector := CASE WHEN query_embedding IS NULL THEN 0 ELSE vector_weight END;
    IF by_keyword + by_vector = 0 THEN
        by_keyword := (coalesce(query_text, '') <> '')::integer;
        by_vector := (query_embedding IS NOT NULL)::integer;
    END IF;
    IF by_keyword + by_vector = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH keyword AS MATERIALIZED (
        SELECT * FROM packwise_keyword_leg(query_text, groups, all_nodes, all_terms, depth,
            tenant_ids, node_types, dataset_names) WHERE coalesce(query_text, '') <> ''
    ), near AS MATERIALIZED (
        SELECT * FROM packwise_vector_leg(query_embedding, all_vectors, depth, tenant_ids,
            node_types, dataset_names, exact) WHERE query_embedding IS NOT NULL
    ), query_terms AS MATERIALIZED (
        SELECT bound, terms, weights, average FROM keyword LIMIT 1
    ), only_near AS MATERIALIZED (
        SELECT n.node_id FROM near AS n
        WHERE NOT EXISTS (SELECT FROM keyword AS w WHERE w.node_id = n.node_id)
    ), completed AS MATERIALIZED (
        -- Each leg scores what only the other leg found.
        SELECT p.node_id, round(sum(w.weight * p.frequency / (p.frequency + {k1}::double precision
            * (1 - {b}::double precision + {b}::double precision * p.length / t.average))) * 1e9)
            / 1e9 AS score
        FROM query_terms AS t CROSS JOIN LATERAL unnest(t.terms, t.weights) AS w (term, weight)
        JOIN knowledge_postings AS p ON p.term = w.term AND p.group_id = ANY (groups)
            AND p.term = ANY ((SELECT t.terms FROM query_terms AS t)::text[])
            AND p.node_id = ANY (ARRAY(SELECT o.node_id FROM only_near AS o))
        GROUP BY p.node_id
    ), bm25 AS (
        SELECT w.node_id, w.score FROM keyword AS w WHERE w.node_id IS NOT NULL
        UNION ALL SELECT c.node_id, c.score FROM completed AS c
    ), cosine AS (
        SELECT n.node_id, n.score FROM near AS n
        UNION ALL SELECT k.node_id, 1 - (k.embedding <=> query_embedding)
        FROM knowledge_nodes AS k WHERE query_embedding IS NOT NULL AND k.node_id = ANY (ARRAY(
            SELECT w.node_id FROM keyword AS w
            WHERE NOT EXISTS (SELECT FROM near AS n WHERE n.node_id = w.node_id)))
    ), both_legs AS (
        SELECT node_id, coalesce(b.score, 0) AS raw, c.score AS near,
            least(1, coalesce(b.score / nullif((SELECT t.bound FROM query_terms AS t), 0), 0))
                AS share,
            least(1, greatest(0, coalesce(c.score, 0))) AS clipped,
            coalesce(1.0 / (60 + row_number() OVER (ORDER BY b.score DESC NULLS LAST, node_id))
                * (b.score IS NOT NULL)::integer, 0) AS keyword_rank,
            coalesce(1.0 / (60 + row_number() OVER (ORDER BY c.score DESC NULLS LAST, node_id))
                * (c.score IS NOT NULL)::integer, 0) AS vector_rank
        FROM bm25 AS b FULL JOIN cosine AS c USING (node_id)
    ), scored AS (
        SELECT l.*, (by_keyword * l.share + by_vector * l.clipped) / (by_keyword + by_vector)
            AS combined, (by_keyword * l.keyword_rank + by_vector * l.vector_rank)
            / (by_keyword + by_vector) AS reciprocal
        FROM both_legs AS l
    ), best AS (
        SELECT s.*, (CASE WHEN fusion = 'rrf' THEN s.reciprocal ELSE s.combined END)
            ::double precision AS final
        FROM scored AS s ORDER BY final DESC, s.node_id
        LIMIT CASE WHEN min_score = 0 THEN top_k END
    )
    -- The probability is that of a map fitted for the node's type and embedder, else unknown.
    SELECT r.node_id, r.raw, r.near, r.share, r.combined, r.relevance, r.final
    FROM (SELECT s.*, (SELECT 1 / (1 + exp(-(m.bias + m.keyword * s.share + m.vector * s.near
                + m.bend * greatest(s.near - m.bend_at, 0))))
            FROM knowledge_nodes AS k JOIN knowledge_relevance AS m
                ON m.node_type = k.node_type AND m.embedder_version = k.embedder_version
            WHERE k.node_id = s.node_id AND query_embedding IS NOT NULL
                AND coalesce(query_text, '') <> '') AS relevance
        FROM best AS s) AS r
    WHERE min_score = 0 OR coalesce(r.relevance, r.combined) >= min_score
    ORDER BY r.final DESC, r.node_id LIMIT top_k;
END $$;
