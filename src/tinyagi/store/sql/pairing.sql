-- Pairing: codes that wait for the owner's approval, and people who have it.

-- name: forget_expired_requests
DELETE FROM pairing_requests WHERE expires_at <= ?;

-- name: request_of_sender
SELECT code, channel, sender_id, sender, created_at, expires_at FROM pairing_requests
WHERE channel = ? AND sender_id = ?;

-- name: count_requests
SELECT count(*) FROM pairing_requests;

-- name: insert_request
INSERT INTO pairing_requests (code, channel, sender_id, sender, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: open_requests
SELECT code, channel, sender_id, sender, created_at, expires_at FROM pairing_requests
WHERE expires_at > ? ORDER BY created_at, rowid;

-- name: take_request
DELETE FROM pairing_requests WHERE code = ?1 AND expires_at > ?2
RETURNING code, channel, sender_id, sender, created_at, expires_at;

-- name: pair_sender
-- A second approval keeps the first one and updates the name.
INSERT INTO paired_senders (channel, sender_id, sender, approved_at, approved_code) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (channel, sender_id) DO UPDATE SET sender = excluded.sender
RETURNING channel, sender_id, sender, approved_at, approved_code;

-- name: take_over_sender
INSERT INTO paired_senders (channel, sender_id, sender, approved_at, approved_code) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (channel, sender_id) DO NOTHING;

-- name: paired_sender
SELECT sender FROM paired_senders WHERE channel = ? AND sender_id = ?;

-- name: rename_sender
UPDATE paired_senders SET sender = ?3 WHERE channel = ?1 AND sender_id = ?2;

-- name: paired_senders
SELECT channel, sender_id, sender, approved_at, approved_code FROM paired_senders ORDER BY approved_at, rowid;

-- name: unpair_sender
DELETE FROM paired_senders WHERE channel = ? AND sender_id = ?;
