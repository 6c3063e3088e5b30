-- Version 3: the lead and the blocks of a passage as JSON; empty until the next build, which reads
-- every document again.

ALTER TABLE passages ADD COLUMN layout TEXT NOT NULL DEFAULT '';
