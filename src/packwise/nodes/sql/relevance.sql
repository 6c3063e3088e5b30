-- Step 2 of nodes: how likely a node is relevant, from its two scores. The logit of the probability
-- is linear in both, and steeper by bend for cosines above bend_at; it never falls with either.
--
-- A row holds for nodes of one type with vectors of one embedder.

CREATE TABLE knowledge_relevance (
    node_type text NOT NULL,
    embedder_version text NOT NULL,
    bias double precision NOT NULL,
    keyword double precision NOT NULL CHECK (keyword >= 0),
    vector double precision NOT NULL CHECK (vector >= 0),
    bend double precision NOT NULL CHECK (bend >= 0),
    bend_at double precision NOT NULL,
    origin text NOT NULL,
    PRIMARY KEY (node_type, embedder_version)
);
