-- Records a finished build.

UPDATE packwise_store SET generation = generation + 1, token = %s, embedder = %s,
    embedder_version = %s, dim = %s, analyzer = %s, rules = %s, updated_at = now(),
    documents = (SELECT count(*) FROM packwise_documents),
    passages = (SELECT count(*) FROM packwise_passages),
    terms = (SELECT coalesce(sum(length), 0) FROM packwise_passages),
    links = (SELECT count(*) FROM packwise_links WHERE target IS NOT NULL)
