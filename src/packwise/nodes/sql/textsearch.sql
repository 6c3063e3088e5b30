-- Step 1 of nodes, on servers with pg_textsearch: its index finds the candidates among many nodes.
--
-- Parameters: language, text (see node_text.sql), k1, b.

ALTER TABLE knowledge_nodes ADD COLUMN indexed_text text GENERATED ALWAYS AS ({text}) STORED;
CREATE INDEX idx_knowledge_nodes_bm25 ON knowledge_nodes USING bm25 (indexed_text)
    WITH (text_config = {language}, k1 = {k1}, b = {b});
