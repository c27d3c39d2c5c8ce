-- Statements for a file that may be of another version or of another program.

-- name: has_ledger
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations';

-- name: newest_migration
SELECT max(number) FROM schema_migrations;
