-- The passages of least cosine distance, found by the vector index.
--
-- Parameters: condition, dim.

SELECT key, distance FROM (
    SELECT p.key, p.embedding::vector({dim}) <=> %(vector)s::vector({dim}) AS distance
    FROM packwise_passages AS p WHERE {condition}
    ORDER BY p.embedding::vector({dim}) <=> %(vector)s::vector({dim}) LIMIT %(k)s
) AS near ORDER BY distance, key
