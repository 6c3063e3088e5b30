-- Functions of nodes: the best nodes by cosine, from the index where that is faster.
--
-- n is the number of nodes searched that have a vector.

CREATE OR REPLACE FUNCTION packwise_vector_leg(query_embedding vector, n bigint, most integer,
        tenant_ids text[], node_types text[], dataset_names text[], exact boolean)
    RETURNS TABLE (node_id integer, score double precision)
    LANGUAGE plpgsql STABLE SECURITY INVOKER ROWS 100 SET search_path FROM CURRENT
    SET plan_cache_mode = force_custom_plan SET enable_seqscan = on AS $$
#variable_conflict use_column
DECLARE
    everything double precision; ids integer[]; scores double precision[];
BEGIN
    IF coalesce(n, 0) = 0 THEN
        RETURN;
    END IF;
    IF NOT exact AND n > 2000 THEN
        SELECT greatest(c.reltuples, n) INTO everything
            FROM pg_class AS c WHERE c.oid = 'knowledge_nodes'::regclass;
    END IF;
    -- An index scan that discards most of its rows costs more than an exact scan.
    IF n::double precision * n > 25.0 * most * everything THEN
        PERFORM set_config('hnsw.iterative_scan', 'strict_order', true),
            set_config('hnsw.ef_search', least(1000, greatest(200, most))::text, true),
            set_config('ivfflat.iterative_scan', 'relaxed_order', true),
            set_config('ivfflat.probes', ceil(2 * sqrt(sqrt(everything)))::text, true);
        SELECT array_agg(f.node_id), array_agg(1 - f.far) INTO ids, scores FROM (
            SELECT k.node_id, k.embedding <=> query_embedding AS far FROM knowledge_nodes AS k
            WHERE k.tenant_id = ANY (tenant_ids)
                AND (node_types IS NULL OR k.node_type = ANY (node_types))
                AND (dataset_names IS NULL OR k.dataset_name = ANY (dataset_names))
                AND k.embedding IS NOT NULL
            ORDER BY k.embedding <=> query_embedding LIMIT most
        ) AS f;
        IF cardinality(ids) >= least(most, n) THEN
            RETURN QUERY SELECT u.id, u.score FROM unnest(ids, scores) AS u (id, score)
                ORDER BY u.score DESC, u.id;
            RETURN;
        END IF;
    END IF;
    -- Adding 0 keeps the planner from using the approximate index.
    RETURN QUERY SELECT f.node_id, 1 - f.far FROM (
        SELECT k.node_id, (k.embedding <=> query_embedding) + 0 AS far FROM knowledge_nodes AS k
        WHERE k.tenant_id = ANY (tenant_ids)
            AND (node_types IS NULL OR k.node_type = ANY (node_types))
            AND (dataset_names IS NULL OR k.dataset_name = ANY (dataset_names))
            AND k.embedding IS NOT NULL
        ORDER BY 2, 1 LIMIT most
    ) AS f;
END $$;
