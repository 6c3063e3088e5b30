-- Sets the targets of links: the document of that id, else the one at that URL, else the same for
-- the link without its fragment. A document's link to itself has no target.

UPDATE packwise_links AS k SET target = t.target FROM (
    SELECT document, position, nullif(coalesce(
        (SELECT key FROM packwise_documents WHERE id = href),
        (SELECT key FROM packwise_documents WHERE url = href AND url <> '' ORDER BY id LIMIT 1),
        (SELECT key FROM packwise_documents WHERE id = page),
        (SELECT key FROM packwise_documents WHERE url = page AND url <> '' ORDER BY id LIMIT 1)
    ), document) AS target FROM packwise_links
) AS t
WHERE t.document = k.document AND t.position = k.position AND t.target IS DISTINCT FROM k.target
