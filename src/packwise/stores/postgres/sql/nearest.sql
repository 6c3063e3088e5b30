-- The passages of least cosine distance, by comparing every vector.
--
-- The cosine of a zero vector is not a number; it counts as 0.
-- Parameters: condition.

SELECT p.key, coalesce(nullif(p.embedding <=> %(vector)s::vector, 'NaN'), 1) AS distance
FROM packwise_passages AS p WHERE {condition} ORDER BY distance, p.key LIMIT %(k)s
