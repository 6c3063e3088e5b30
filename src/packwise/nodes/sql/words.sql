-- Functions of nodes: a text as the words that are searched.
--
-- The parser reads "orders.total" as a host name, "MailCity" as one word, and a Chinese or Japanese
-- sentence as one word, which it leaves out if it is long.
--
-- Parameters: cjk (a pattern that matches one character of a script without spaces).

CREATE OR REPLACE FUNCTION packwise_words(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.regexp_replace(pg_catalog.regexp_replace(
        pg_catalog.translate(words, './\:@_', '      '),
        '([a-z0-9])([A-Z])', '\1 \2', 'g'), {cjk}, '\1 ', 'g') $$;
