-- Functions of nodes: the best nodes by BM25, with what is needed to score other nodes.
--
-- Up to 30,000 postings, counting them all is as fast as asking pg_textsearch, and it does not
-- read other tenants' nodes on the way.
--
-- n and total are the nodes searched and their terms.
--
-- Parameters: language, k1, b, textsearch (whether the server has pg_textsearch).

CREATE OR REPLACE FUNCTION packwise_keyword_leg(query_text text, groups integer[], n bigint,
        total bigint, most integer, tenant_ids text[], node_types text[], dataset_names text[])
    RETURNS TABLE (node_id integer, score double precision, bound double precision,
        terms text[], weights double precision[], average double precision)
    LANGUAGE plpgsql STABLE SECURITY INVOKER ROWS 100 SET search_path FROM CURRENT
    SET plan_cache_mode = force_custom_plan SET enable_seqscan = on AS $$
#variable_conflict use_column
DECLARE
    average double precision; bound double precision;
    terms text[]; weights double precision[]; postings bigint; candidates integer[];
BEGIN
    terms := (tsvector_to_array(to_tsvector({language}::regconfig,
        packwise_words(left(coalesce(query_text, ''), 20000)))))[1:512];
    IF coalesce(n, 0) = 0 OR terms = '{}' THEN
        RETURN;
    END IF;
    average := greatest(total, 1)::double precision / n;
    -- A term that no node contains has the highest weight: no node can be a perfect match then.
    -- The bound is the score of a text that contains every term at saturation and nothing else:
    -- each term accounts for its share of the length.
    SELECT array_agg(w.term), array_agg(w.weight), sum(w.held), sum(w.weight)
        / (1 + {k1}::double precision * {b}::double precision * cardinality(terms) / average)
        INTO terms, weights, postings, bound FROM (
        SELECT q.term, coalesce(d.held, 0) AS held,
            ln(1 + (n - coalesce(d.held, 0) + 0.5) / (coalesce(d.held, 0) + 0.5))
            ::double precision * ({k1}::double precision + 1) AS weight
        FROM unnest(terms) AS q (term) LEFT JOIN (
            SELECT t.term, sum(t.nodes) AS held FROM knowledge_terms AS t
            WHERE t.group_id = ANY (groups) AND t.term = ANY (terms) GROUP BY t.term
        ) AS d USING (term)
    ) AS w;
    IF {textsearch} AND postings >= 30000 AND 4 * n >= (SELECT c.reltuples FROM pg_class AS c
            WHERE c.oid = 'knowledge_nodes'::regclass) THEN
        EXECUTE 'SELECT array_agg(c.node_id) FROM (SELECT k.node_id FROM knowledge_nodes AS k
                WHERE k.tenant_id = ANY ($2) AND ($3 IS NULL OR k.node_type = ANY ($3))
                AND ($4 IS NULL OR k.dataset_name = ANY ($4))
                ORDER BY k.indexed_text <@> to_bm25query(packwise_words($1),
                    ''idx_knowledge_nodes_bm25'') LIMIT $5) AS c'
            INTO candidates USING query_text, tenant_ids, node_types, dataset_names, 2 * most::bigint;
        IF coalesce(cardinality(candidates), 0) < 2 * most::bigint THEN
            candidates := NULL;
        END IF;
    END IF;
    RETURN QUERY SELECT s.node_id, round(s.score * 1e9) / 1e9, bound,
            terms, weights, average
        FROM (
            SELECT p.node_id, sum(w.weight * p.frequency / (p.frequency + {k1}::double precision
                * (1 - {b}::double precision + {b}::double precision * p.length / average)))
                AS score
            FROM knowledge_postings AS p JOIN unnest(terms, weights) AS w (term, weight)
                ON w.term = p.term
            WHERE p.group_id = ANY (groups) AND p.term = ANY (terms)
                AND (candidates IS NULL OR p.node_id = ANY (candidates))
            GROUP BY p.node_id
        ) AS s ORDER BY 2 DESC, 1 LIMIT most;
    -- Without a hit, the bound is still needed to score what the vector leg finds.
    IF NOT FOUND THEN
        RETURN QUERY SELECT NULL::integer, NULL::double precision, bound, terms, weights, average;
    END IF;
END $$;
