-- Step 1 of passages: documents, links, passages, postings and what is staged for the next build.
--
-- Names begin with packwise_, since the database may be one that already serves other purposes.

CREATE TABLE packwise_store (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    generation bigint NOT NULL DEFAULT 0,
    token text NOT NULL DEFAULT '',
    embedder text NOT NULL DEFAULT '',
    embedder_version text NOT NULL DEFAULT '',
    dim integer NOT NULL DEFAULT 0,
    analyzer text NOT NULL DEFAULT '',
    rules text NOT NULL DEFAULT '',
    documents bigint NOT NULL DEFAULT 0,
    passages bigint NOT NULL DEFAULT 0,
    links bigint NOT NULL DEFAULT 0,
    terms bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO packwise_store DEFAULT VALUES;
CREATE TABLE packwise_documents (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    title text NOT NULL,
    url text NOT NULL,
    lang text NOT NULL,
    source_hash text NOT NULL,
    metadata jsonb NOT NULL,
    groups text[] NOT NULL,
    sections jsonb NOT NULL,
    text text NOT NULL,
    pagerank double precision NOT NULL DEFAULT 0
);
CREATE INDEX packwise_documents_url ON packwise_documents USING hash (url) WHERE url <> '';
CREATE INDEX packwise_documents_metadata
    ON packwise_documents USING gin (metadata jsonb_path_ops);
CREATE TABLE packwise_links (
    document bigint NOT NULL REFERENCES packwise_documents ON DELETE CASCADE,
    position integer NOT NULL,
    href text NOT NULL,
    page text NOT NULL,
    anchor text NOT NULL,
    first integer NOT NULL,
    reach integer NOT NULL,
    kind text NOT NULL,
    target bigint REFERENCES packwise_documents ON DELETE SET NULL,
    PRIMARY KEY (document, position)
);
CREATE INDEX packwise_links_href ON packwise_links USING hash (href);
CREATE INDEX packwise_links_page ON packwise_links USING hash (page);
CREATE INDEX packwise_links_target ON packwise_links (target);
-- The dimension of the vectors is in the index, not in the column: it is the embedder's.
CREATE TABLE packwise_passages (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document bigint NOT NULL REFERENCES packwise_documents ON DELETE CASCADE,
    position integer NOT NULL,
    section_path text[] NOT NULL,
    first integer NOT NULL,
    past integer NOT NULL,
    content_hash text NOT NULL,
    url text,
    text text NOT NULL,
    length integer NOT NULL,
    embedding vector NOT NULL,
    UNIQUE (document, position)
);
-- Vectors stay in their rows, so that an exact scan needs no second look-up per vector.
ALTER TABLE packwise_passages ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX packwise_passages_hash ON packwise_passages (content_hash);
CREATE TABLE packwise_postings (
    term text COLLATE "C" NOT NULL,
    passage bigint NOT NULL REFERENCES packwise_passages ON DELETE CASCADE,
    frequency integer NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (term, passage) INCLUDE (frequency, length)
);
CREATE INDEX packwise_postings_passage ON packwise_postings (passage);
CREATE TABLE packwise_staged (
    id text COLLATE "C" PRIMARY KEY,
    source_hash text NOT NULL,
    embedder_version text NOT NULL,
    payload bytea NOT NULL
);
CREATE TABLE packwise_staged_vectors (
    content_hash text NOT NULL,
    embedder_version text NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (content_hash, embedder_version)
);
