-- Functions of nodes: triggers that keep groups, postings, terms and totals right under insert,
-- update, delete and truncate.
--
-- They add and remove rows but never change one, so that writers do not wait for each other.

CREATE OR REPLACE FUNCTION packwise_sum_totals() RETURNS void LANGUAGE plpgsql SECURITY INVOKER
    SET search_path FROM CURRENT AS $$
DECLARE
    crowded integer;
BEGIN
    FOR crowded IN
        SELECT group_id FROM knowledge_totals GROUP BY group_id HAVING count(*) > 32
    LOOP
        WITH old AS (
            DELETE FROM knowledge_totals WHERE total_id IN (
                SELECT total_id FROM knowledge_totals WHERE group_id = crowded
                FOR UPDATE SKIP LOCKED
            ) RETURNING nodes, terms, vectors
        )
        INSERT INTO knowledge_totals (group_id, nodes, terms, vectors)
            SELECT crowded, sum(nodes), sum(terms), sum(vectors) FROM old HAVING count(*) > 0;
        WITH old AS (
            DELETE FROM knowledge_terms WHERE count_id IN (
                SELECT t.count_id FROM knowledge_terms AS t JOIN (
                    SELECT term FROM knowledge_terms WHERE group_id = crowded
                    GROUP BY term HAVING count(*) > 8
                ) AS many USING (term) WHERE t.group_id = crowded
                FOR UPDATE OF t SKIP LOCKED
            ) RETURNING term, nodes
        )
        INSERT INTO knowledge_terms (group_id, term, nodes)
            SELECT crowded, term, sum(nodes) FROM old GROUP BY term HAVING sum(nodes) <> 0;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION packwise_nodes_added() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER
    SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO knowledge_groups (tenant_id, dataset_name, node_type)
        SELECT DISTINCT tenant_id, dataset_name, node_type FROM added
        ORDER BY tenant_id, dataset_name, node_type ON CONFLICT DO NOTHING;
    WITH terms AS MATERIALIZED (
        SELECT g.group_id, a.node_id, u.lexeme, coalesce(cardinality(u.positions), 1) AS frequency,
            sum(coalesce(cardinality(u.positions), 1)) OVER (PARTITION BY a.node_id) AS length
        FROM added AS a JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
        CROSS JOIN LATERAL unnest(a.searchable_text) AS u
    ), posted AS (
        INSERT INTO knowledge_postings (group_id, term, node_id, frequency, length)
            SELECT group_id, lexeme, node_id, frequency, length FROM terms
    )
    INSERT INTO knowledge_terms (group_id, term, nodes)
        SELECT group_id, lexeme, count(*) FROM terms GROUP BY group_id, lexeme;
    INSERT INTO knowledge_totals (group_id, nodes, terms, vectors)
        SELECT g.group_id, count(*), sum((SELECT coalesce(sum(cardinality(u.positions)), 0)
            FROM unnest(a.searchable_text) AS u)), count(a.embedding)
        FROM added AS a JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
        GROUP BY g.group_id;
    PERFORM packwise_sum_totals();
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION packwise_nodes_removed() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER
    SET search_path FROM CURRENT AS $$
BEGIN
    WITH gone AS (
        DELETE FROM knowledge_postings AS p
            USING removed AS r JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
            CROSS JOIN LATERAL unnest(r.searchable_text) AS u
            WHERE p.group_id = g.group_id AND p.term = u.lexeme AND p.node_id = r.node_id
            RETURNING p.group_id, p.term
    )
    INSERT INTO knowledge_terms (group_id, term, nodes)
        SELECT group_id, term, -count(*) FROM gone GROUP BY group_id, term;
    INSERT INTO knowledge_totals (group_id, nodes, terms, vectors)
        SELECT g.group_id, -count(*), -sum((SELECT coalesce(sum(cardinality(u.positions)), 0)
            FROM unnest(r.searchable_text) AS u)), -count(r.embedding)
        FROM removed AS r JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
        GROUP BY g.group_id;
    PERFORM packwise_sum_totals();
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION packwise_nodes_changed() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER
    SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO knowledge_groups (tenant_id, dataset_name, node_type)
        SELECT DISTINCT tenant_id, dataset_name, node_type FROM added
        ORDER BY tenant_id, dataset_name, node_type ON CONFLICT DO NOTHING;
    -- Only nodes whose text, tenant, data set or type changed.
    WITH gone AS (
        DELETE FROM knowledge_postings AS p
            USING removed AS r JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
            CROSS JOIN LATERAL unnest(r.searchable_text) AS u
            WHERE p.group_id = g.group_id AND p.term = u.lexeme AND p.node_id = r.node_id
            AND NOT EXISTS (SELECT FROM added AS a WHERE a.node_id = r.node_id
                AND (a.tenant_id, a.dataset_name, a.node_type, a.searchable_text)
                    = (r.tenant_id, r.dataset_name, r.node_type, r.searchable_text))
            RETURNING p.group_id, p.term
    )
    INSERT INTO knowledge_terms (group_id, term, nodes)
        SELECT group_id, term, -count(*) FROM gone GROUP BY group_id, term;
    WITH come AS (
        INSERT INTO knowledge_postings (group_id, term, node_id, frequency, length)
            SELECT g.group_id, u.lexeme, a.node_id, coalesce(cardinality(u.positions), 1),
                sum(coalesce(cardinality(u.positions), 1)) OVER (PARTITION BY a.node_id)
            FROM added AS a JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
            CROSS JOIN LATERAL unnest(a.searchable_text) AS u
            WHERE NOT EXISTS (SELECT FROM removed AS r WHERE a.node_id = r.node_id
                AND (a.tenant_id, a.dataset_name, a.node_type, a.searchable_text)
                    = (r.tenant_id, r.dataset_name, r.node_type, r.searchable_text))
            RETURNING group_id, term
    )
    INSERT INTO knowledge_terms (group_id, term, nodes)
        SELECT group_id, term, count(*) FROM come GROUP BY group_id, term;
    INSERT INTO knowledge_totals (group_id, nodes, terms, vectors)
        SELECT group_id, sum(nodes), sum(terms), sum(vectors) FROM (
            SELECT g.group_id, 1 AS nodes, (SELECT coalesce(sum(cardinality(u.positions)), 0)
                FROM unnest(a.searchable_text) AS u) AS terms,
                (a.embedding IS NOT NULL)::integer AS vectors
            FROM added AS a JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
            UNION ALL
            SELECT g.group_id, -1, -(SELECT coalesce(sum(cardinality(u.positions)), 0)
                FROM unnest(r.searchable_text) AS u), -(r.embedding IS NOT NULL)::integer
            FROM removed AS r JOIN knowledge_groups AS g USING (tenant_id, dataset_name, node_type)
        ) AS change GROUP BY group_id
        HAVING sum(nodes) <> 0 OR sum(terms) <> 0 OR sum(vectors) <> 0;
    PERFORM packwise_sum_totals();
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION packwise_nodes_emptied() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER
    SET search_path FROM CURRENT AS $$
BEGIN
    TRUNCATE knowledge_postings, knowledge_terms, knowledge_totals;
    RETURN NULL;
END $$;

-- What is embedded of a node: as KnowledgeNode.embedded_text.
CREATE OR REPLACE FUNCTION packwise_embedded_text(node knowledge_nodes) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT concat_ws(' ', nullif(node.title, ''), nullif(node.summary, ''),
        coalesce(nullif(node.content_description, ''),
            CASE WHEN node.node_type <> 'qa_example' THEN nullif(node.content, '') END)) $$;

CREATE OR REPLACE FUNCTION packwise_node_touched() RETURNS trigger
    LANGUAGE plpgsql SECURITY INVOKER SET search_path FROM CURRENT AS $$
DECLARE
    size integer := length(NEW.title) + length(NEW.summary) + length(NEW.content_description)
        + length(NEW.content) + 3;
    changed boolean := true;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        NEW.updated_at := now();
        changed := (NEW.title, NEW.summary, NEW.content_description, NEW.content)
            IS DISTINCT FROM (OLD.title, OLD.summary, OLD.content_description, OLD.content);
        -- Packwise sets the hash of what it writes. A change by any other client leaves it: then
        -- the next import has to write the node again, and a vector of the old text is no use.
        IF NEW.content_hash = OLD.content_hash AND (changed OR (NEW.dataset_name, NEW.node_type,
            NEW.metadata) IS DISTINCT FROM (OLD.dataset_name, OLD.node_type, OLD.metadata))
        THEN
            NEW.content_hash := '';
            IF NEW.embedding IS NOT DISTINCT FROM OLD.embedding
                AND packwise_embedded_text(NEW) IS DISTINCT FROM packwise_embedded_text(OLD)
            THEN
                NEW.embedding := NULL;
                NEW.embedder_version := '';
            END IF;
        END IF;
    END IF;
    -- Splitting words at most doubles a text.
    IF changed AND size > 100000 THEN
        size := length(packwise_words(NEW.title || ' ' || NEW.summary || ' '
            || NEW.content_description || ' ' || NEW.content));
        IF size > 200000 THEN
            RAISE EXCEPTION 'the text of the node "%" has % characters, and 200000 can be searched',
                left(NEW.title, 60), size USING ERRCODE = 'string_data_right_truncation';
        END IF;
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS packwise_added ON knowledge_nodes;
DROP TRIGGER IF EXISTS packwise_changed ON knowledge_nodes;
DROP TRIGGER IF EXISTS packwise_removed ON knowledge_nodes;
DROP TRIGGER IF EXISTS packwise_emptied ON knowledge_nodes;
DROP TRIGGER IF EXISTS packwise_touched ON knowledge_nodes;
CREATE TRIGGER packwise_added AFTER INSERT ON knowledge_nodes
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION packwise_nodes_added();
CREATE TRIGGER packwise_changed AFTER UPDATE ON knowledge_nodes
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION packwise_nodes_changed();
CREATE TRIGGER packwise_removed AFTER DELETE ON knowledge_nodes
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION packwise_nodes_removed();
CREATE TRIGGER packwise_emptied AFTER TRUNCATE ON knowledge_nodes
    FOR EACH STATEMENT EXECUTE FUNCTION packwise_nodes_emptied();
CREATE TRIGGER packwise_touched BEFORE INSERT OR UPDATE ON knowledge_nodes
    FOR EACH ROW EXECUTE FUNCTION packwise_node_touched();
