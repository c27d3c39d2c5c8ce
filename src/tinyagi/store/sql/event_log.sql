-- The event log and its durable readers.

-- name: insert_event
INSERT INTO events (id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: events_after
-- Bounded at both ends: a search for a rare type reads the log range by range.
SELECT id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at
FROM events WHERE id > :after AND id <= :through AND (:type IS NULL OR type = :type) ORDER BY id LIMIT :limit;

-- name: event_bounds
-- The head is the last id that was assigned, so pruning the newest events does not lower it.
SELECT ifnull((SELECT min(id) FROM events), 0), ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0);

-- name: move_cursor
-- A reader that repeats an old position keeps its newer one.
INSERT INTO cursors (consumer, position, updated_at) VALUES (?1, ?2, ?3)
ON CONFLICT (consumer) DO UPDATE SET position = max(position, excluded.position), updated_at = excluded.updated_at;

-- name: drop_cursor
DELETE FROM cursors WHERE consumer = ?;

-- name: cursor
SELECT position FROM cursors WHERE consumer = ?;

-- name: events_between
-- A range of the log, bounded by ids at both ends so that no read transaction grows with the log.
SELECT id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at
FROM events
WHERE id > :after AND id <= :through AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
ORDER BY id;

-- name: first_event_after
-- Skips any number of missing ids in one step.
SELECT min(id) FROM events WHERE id > :after;

-- name: nth_event_after
-- Steps through the ids without reading payloads.
SELECT id FROM events WHERE id > :after AND id <= :through ORDER BY id LIMIT 1 OFFSET :rows - 1;

-- name: tally_events
SELECT count(*), ifnull(sum(id), 0) FROM events WHERE id > :after AND id <= :through;
