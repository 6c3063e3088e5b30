-- All documents with their numbers of passages, by id.

SELECT d.id, d.title, d.url, d.lang, d.source_hash,
    (SELECT count(*) FROM packwise_passages AS p WHERE p.document = d.key), d.pagerank, d.metadata
FROM packwise_documents AS d ORDER BY d.id
