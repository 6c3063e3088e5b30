-- Version 1: documents, passages, vectors, links, and the staging table of builds.

CREATE TABLE embedders (
    key INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, dim INTEGER NOT NULL,
    UNIQUE (name, version, dim)
);

-- One row; generation 0 means that no build has been finished yet.
CREATE TABLE pack (
    only INTEGER PRIMARY KEY CHECK (only = 1), generation INTEGER NOT NULL,
    token TEXT NOT NULL, embedder INTEGER REFERENCES embedders (key),
    documents INTEGER NOT NULL, passages INTEGER NOT NULL, links INTEGER NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL
);

-- text is zlib-compressed UTF-8: it is read rarely, a passage's own text often.
CREATE TABLE documents (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, url TEXT NOT NULL,
    lang TEXT NOT NULL, source_hash TEXT NOT NULL, metadata TEXT NOT NULL, text BLOB NOT NULL
);

-- Apart from the documents: all ranks change with every build, the texts do not.
CREATE TABLE ranks (
    document INTEGER PRIMARY KEY REFERENCES documents (key) ON DELETE CASCADE,
    pagerank REAL NOT NULL
);

CREATE INDEX documents_url ON documents (url) WHERE url <> '';

CREATE TABLE document_metadata (
    document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
    name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (document, name)
) WITHOUT ROWID;

CREATE INDEX document_metadata_value ON document_metadata (name, value, document);

CREATE TABLE document_groups (
    document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
    name TEXT NOT NULL, PRIMARY KEY (document, name)
) WITHOUT ROWID;

CREATE TABLE sections (
    document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
    position INTEGER NOT NULL, path TEXT NOT NULL, level INTEGER NOT NULL,
    first INTEGER NOT NULL, past INTEGER NOT NULL, blocks TEXT NOT NULL,
    PRIMARY KEY (document, position)
) WITHOUT ROWID;

-- page is href without its fragment; target stays NULL while no document answers to it.
CREATE TABLE links (
    document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
    position INTEGER NOT NULL, href TEXT NOT NULL, page TEXT NOT NULL, anchor TEXT NOT NULL,
    first INTEGER NOT NULL, kind TEXT NOT NULL,
    target INTEGER REFERENCES documents (key) ON DELETE SET NULL,
    PRIMARY KEY (document, position)
) WITHOUT ROWID;

CREATE INDEX links_href ON links (href);

CREATE INDEX links_page ON links (page);

CREATE INDEX links_target ON links (target);

-- vector is little-endian float16, L2-normalised before rounding.
CREATE TABLE vectors (
    key INTEGER PRIMARY KEY, content_hash TEXT NOT NULL,
    embedder INTEGER NOT NULL REFERENCES embedders (key), vector BLOB NOT NULL,
    UNIQUE (content_hash, embedder)
);

-- AUTOINCREMENT: a key that was handed out never comes to mean another passage.
CREATE TABLE passages (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
    position INTEGER NOT NULL, section_path TEXT NOT NULL, first INTEGER NOT NULL,
    past INTEGER NOT NULL, content_hash TEXT NOT NULL, url TEXT,
    vector INTEGER NOT NULL REFERENCES vectors (key), text TEXT NOT NULL,
    UNIQUE (document, position)
);

CREATE INDEX passages_vector ON passages (vector);

-- payload is the document with its passages as compressed JSON.
CREATE TABLE staged (
    id TEXT PRIMARY KEY, source_hash TEXT NOT NULL,
    embedder INTEGER NOT NULL REFERENCES embedders (key), payload BLOB NOT NULL
);
