-- The columns that this user may read, in every schema or in the named ones; Packwise's own tables
-- and those of extensions are left out.

SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    coalesce(col_description(c.oid, a.attnum), ''), coalesce(obj_description(c.oid), ''),
    a.attnotnull,
    EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary
        AND a.attnum = ANY (i.indkey)),
    (SELECT f.confrelid::regclass::text FROM pg_constraint AS f WHERE f.conrelid = c.oid
        AND f.contype = 'f' AND f.conkey = ARRAY[a.attnum] LIMIT 1)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_%%'
    AND (%(schemas)s::text[] = '{}' OR n.nspname = ANY (%(schemas)s::text[]))
    AND c.relname NOT LIKE 'packwise\_%%' AND c.relname NOT LIKE 'knowledge\_%%'
    AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
    AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname, a.attnum;
