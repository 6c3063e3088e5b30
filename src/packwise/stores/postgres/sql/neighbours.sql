-- The passages before and after one, of the same document.
--
-- Parameters: columns, tables.

SELECT {columns} FROM {tables} JOIN packwise_passages AS own
    ON own.key = %(key)s AND p.document = own.document
WHERE p.key IN (
    (SELECT key FROM packwise_passages WHERE document = own.document
        AND position < own.position ORDER BY position DESC LIMIT %(before)s)
    UNION ALL
    (SELECT key FROM packwise_passages WHERE document = own.document
        AND position > own.position ORDER BY position LIMIT %(after)s)
) ORDER BY p.position
