-- Step 1 of passages: entities, and what passages say about them.

CREATE TABLE packwise_entities (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    label text NOT NULL,
    kind text NOT NULL,
    description text NOT NULL DEFAULT '',
    passages integer NOT NULL DEFAULT 0,
    known boolean NOT NULL DEFAULT false
);
CREATE TABLE packwise_mentions (
    passage bigint NOT NULL REFERENCES packwise_passages ON DELETE CASCADE,
    entity bigint NOT NULL REFERENCES packwise_entities ON DELETE CASCADE,
    sure boolean NOT NULL,
    linked boolean NOT NULL DEFAULT false,
    PRIMARY KEY (passage, entity)
);
CREATE INDEX packwise_mentions_entity ON packwise_mentions (entity, passage);
CREATE TABLE packwise_aliases (
    entity bigint NOT NULL REFERENCES packwise_entities ON DELETE CASCADE,
    document bigint NOT NULL REFERENCES packwise_documents ON DELETE CASCADE,
    position integer NOT NULL,
    PRIMARY KEY (entity, document)
);
CREATE INDEX packwise_aliases_document ON packwise_aliases (document, position);
CREATE TABLE packwise_facts (
    passage bigint NOT NULL REFERENCES packwise_passages ON DELETE CASCADE,
    position integer NOT NULL,
    entity bigint NOT NULL REFERENCES packwise_entities ON DELETE CASCADE,
    text text NOT NULL,
    PRIMARY KEY (passage, position)
);
CREATE INDEX packwise_facts_entity ON packwise_facts (entity);
CREATE TABLE packwise_relations (
    passage bigint NOT NULL REFERENCES packwise_passages ON DELETE CASCADE,
    position integer NOT NULL,
    source bigint NOT NULL REFERENCES packwise_entities ON DELETE CASCADE,
    relation text NOT NULL,
    target bigint NOT NULL REFERENCES packwise_entities ON DELETE CASCADE,
    context text NOT NULL,
    PRIMARY KEY (passage, position)
);
CREATE INDEX packwise_relations_source ON packwise_relations (source);
CREATE INDEX packwise_relations_target ON packwise_relations (target);
CREATE TABLE packwise_extractions (
    passage bigint PRIMARY KEY REFERENCES packwise_passages ON DELETE CASCADE,
    payload text NOT NULL
);
