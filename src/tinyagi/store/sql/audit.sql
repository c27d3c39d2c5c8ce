-- The audit log: administrative actions.

-- name: insert_audit_entry
INSERT INTO audit_log (at, who, action, target, detail) VALUES (?, ?, ?, ?, ?);

-- name: audit_page
SELECT id, at, who, action, target, detail FROM audit_log WHERE id < :before ORDER BY id DESC LIMIT :limit;
