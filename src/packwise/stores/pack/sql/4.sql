-- Version 4: a checksum per row. A document's text has one of its own (zlib).

ALTER TABLE documents ADD COLUMN checksum INTEGER;

ALTER TABLE passages ADD COLUMN checksum INTEGER;

ALTER TABLE vectors ADD COLUMN checksum INTEGER;

UPDATE documents SET checksum = row_checksum(id, title, url, lang, source_hash, metadata);

UPDATE passages SET checksum = row_checksum(
    document, position, section_path, first, past, content_hash, url, text, layout);

UPDATE vectors SET checksum = row_checksum(vector);
