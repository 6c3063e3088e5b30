-- The text of a node that is searched by keyword, an expression over knowledge_nodes.

left(packwise_words(title || ' ' || summary || ' ' || content_description || ' ' || content),
    200000)
