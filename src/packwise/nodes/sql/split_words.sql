-- Step 2 of nodes: index stored nodes again whose words were not split.
--
-- Parameters: cjk (as in words.sql).

UPDATE knowledge_nodes SET title = title
    WHERE title || summary || content_description || content ~ {cjk};
