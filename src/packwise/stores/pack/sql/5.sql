-- Version 5: sure mentions by entity, so that a change need not read all mentions of a common one.

CREATE INDEX mentions_sure ON mentions (entity) WHERE sure = 1;
