-- Version 2: what passages name. All of it follows from the texts, titles, links and extractions by
-- the rules that the table knowledge names; other rules mean that it has to be found again.

CREATE TABLE knowledge (
    only INTEGER PRIMARY KEY CHECK (only = 1), rules TEXT NOT NULL
);

-- known: a passage surely names it, or a document, a fact or a relation is about it.
CREATE TABLE entities (
    key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
    kind TEXT NOT NULL, description TEXT NOT NULL DEFAULT '',
    passages INTEGER NOT NULL DEFAULT 0, known INTEGER NOT NULL DEFAULT 0
);

-- linked: only a link of the author's says so, no word of the text.
CREATE TABLE mentions (
    passage INTEGER NOT NULL REFERENCES passages (key) ON DELETE CASCADE,
    entity INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
    sure INTEGER NOT NULL, linked INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (passage, entity)
) WITHOUT ROWID;

CREATE INDEX mentions_entity ON mentions (entity, passage);

-- position 0 is the whole title.
CREATE TABLE aliases (
    entity INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
    document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
    position INTEGER NOT NULL, PRIMARY KEY (entity, document)
) WITHOUT ROWID;

CREATE INDEX aliases_document ON aliases (document, position);

CREATE TABLE facts (
    passage INTEGER NOT NULL REFERENCES passages (key) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    entity INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE, text TEXT NOT NULL,
    PRIMARY KEY (passage, position)
) WITHOUT ROWID;

CREATE INDEX facts_entity ON facts (entity);

CREATE TABLE relations (
    passage INTEGER NOT NULL REFERENCES passages (key) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    source INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
    relation TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
    context TEXT NOT NULL, PRIMARY KEY (passage, position)
) WITHOUT ROWID;

CREATE INDEX relations_source ON relations (source);

CREATE INDEX relations_target ON relations (target);

-- What a language model read in a passage, as JSON.
CREATE TABLE extractions (
    passage INTEGER PRIMARY KEY REFERENCES passages (key) ON DELETE CASCADE,
    payload TEXT NOT NULL
);
