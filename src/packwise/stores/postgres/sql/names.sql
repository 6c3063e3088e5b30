-- What graph ranking follows from some names, or from some passages, in one round trip.
--
-- Each row has a kind, up to three numbers and two texts; the rows of a kind stand in the order in
-- which a store returns them. Entities that are asked for lead nowhere new, but are mentioned.
-- With LIMIT, rows are looked up one by one: a planner that expects many of them reads whole tables.
-- Parameters: none.

WITH held AS MATERIALIZED (
    SELECT w.passage, e.key, e.name, e.passages
    FROM unnest(%(passages)s::bigint[]) AS w (passage)
    CROSS JOIN LATERAL (
        SELECT m.entity FROM packwise_mentions AS m WHERE m.passage = w.passage OFFSET 0
    ) AS m
    CROSS JOIN LATERAL (
        SELECT e.key, e.name, e.passages FROM packwise_entities AS e
        WHERE e.key = m.entity AND e.known LIMIT 1
    ) AS e
), known AS MATERIALIZED (
    SELECT e.key, e.name, e.passages FROM packwise_entities AS e
    WHERE e.known AND e.name = ANY (%(names)s::text[])
    UNION SELECT h.key, h.name, h.passages FROM held AS h
), followed AS MATERIALIZED (
    SELECT k.key, k.passages FROM known AS k WHERE k.name <> ALL (%(asked)s::text[])
), titled AS MATERIALIZED (
    SELECT k.key AS entity, d.key, d.id, d.title FROM known AS k
    CROSS JOIN LATERAL (
        SELECT a.document FROM packwise_aliases AS a WHERE a.entity = k.key OFFSET 0
    ) AS a
    CROSS JOIN LATERAL (
        SELECT d.key, d.id, d.title FROM packwise_documents AS d WHERE d.key = a.document LIMIT 1
    ) AS d
), places AS MATERIALIZED (
    SELECT f.key AS entity, p.key, d.id, d.title FROM followed AS f
    CROSS JOIN LATERAL (
        SELECT m.passage FROM packwise_mentions AS m
        WHERE m.entity = f.key ORDER BY m.passage LIMIT %(places)s
    ) AS m
    CROSS JOIN LATERAL (
        SELECT p.key, p.document FROM packwise_passages AS p WHERE p.key = m.passage LIMIT 1
    ) AS p
    CROSS JOIN LATERAL (
        SELECT d.id, d.title FROM packwise_documents AS d WHERE d.key = p.document LIMIT 1
    ) AS d
    WHERE f.passages BETWEEN 2 AND %(places)s
), contents AS MATERIALIZED (
    SELECT d.id, p.key, p.position FROM (
        SELECT DISTINCT t.key, t.id FROM titled AS t WHERE t.entity IN (SELECT key FROM followed)
    ) AS d
    CROSS JOIN LATERAL (
        SELECT p.key, p.position FROM packwise_passages AS p
        WHERE p.document = d.key ORDER BY p.position LIMIT %(most)s
    ) AS p
)
SELECT 'entity', key, passages::bigint, 0::bigint, name, '',
    row_number() OVER (ORDER BY key) AS nth FROM known WHERE name = ANY (%(names)s::text[])
UNION ALL SELECT 'place', w.key, 0, 0, d.id, d.title, 0
    FROM unnest(%(passages)s::bigint[]) AS w (key)
    CROSS JOIN LATERAL (
        SELECT p.document FROM packwise_passages AS p WHERE p.key = w.key LIMIT 1
    ) AS p
    CROSS JOIN LATERAL (
        SELECT d.id, d.title FROM packwise_documents AS d WHERE d.key = p.document LIMIT 1
    ) AS d
UNION ALL SELECT 'mentioned', passage, key, passages, name, '',
    row_number() OVER (ORDER BY passage, key) FROM held
UNION ALL SELECT 'title', entity, 0, 0, id, title, row_number() OVER (ORDER BY id) FROM titled
UNION ALL SELECT 'mentioning', entity, key, 0, id, title,
    row_number() OVER (ORDER BY entity, key) FROM places
UNION ALL SELECT 'first', key, 0, 0, id, '',
    row_number() OVER (ORDER BY id, position) FROM contents
ORDER BY 1, nth
