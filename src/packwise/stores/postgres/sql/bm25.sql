-- The passages of highest BM25 for some terms.
--
-- Scores are rounded, because the last digits of a sum depend on the order of its terms.
-- Parameters: join (the passages, if the condition needs them), condition.

WITH weight AS MATERIALIZED (
    SELECT term, ln(1 + (%(passages)s - count(*) + 0.5::float8) / (count(*) + 0.5::float8))
        * (%(k1)s::float8 + 1) AS weight
    FROM packwise_postings WHERE term = ANY (%(terms)s::text[]) GROUP BY term
), scored AS (
    SELECT x.passage, sum(w.weight * x.frequency / (x.frequency + %(k1)s::float8
        * (1 - %(b)s::float8 + %(b)s::float8 * x.length / %(average)s::float8))) AS score
    FROM packwise_postings AS x JOIN weight AS w ON w.term = x.term {join}
    WHERE x.term = ANY (%(terms)s::text[]) AND {condition}
    GROUP BY x.passage
)
SELECT passage, round(score * 1e9) / 1e9 AS score FROM scored
ORDER BY score DESC, passage LIMIT %(k)s
