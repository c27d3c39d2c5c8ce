-- Schedules: which are due, and the step from one due time to the next.

-- name: schedules
-- Oldest first; rows of the same millisecond in insertion order.
SELECT id, label, agent_id, message, cron, run_at, channel, sender, sender_id, enabled, timezone, next_at, last_at, created_at,
       updated_at
FROM schedules ORDER BY created_at, rowid;

-- name: schedule
SELECT id, label, agent_id, message, cron, run_at, channel, sender, sender_id, enabled, timezone, next_at, last_at, created_at,
       updated_at
FROM schedules WHERE id = ?;

-- name: named_schedule
-- By its id, else by its label.
SELECT id, label, agent_id, message, cron, run_at, channel, sender, sender_id, enabled, timezone, next_at, last_at, created_at,
       updated_at
FROM schedules WHERE id = ?1 OR label = ?1 ORDER BY id = ?1 DESC LIMIT 1;

-- name: label_in_use
-- By a schedule other than ?2.
SELECT 1 FROM schedules WHERE label = ?1 AND id <> ?2;

-- name: insert_schedule
INSERT INTO schedules (id, label, agent_id, message, cron, run_at, channel, sender, sender_id, enabled, timezone, next_at,
  created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13);

-- name: update_schedule
UPDATE schedules SET label = ?2, agent_id = ?3, message = ?4, cron = ?5, run_at = ?6, channel = ?7, sender = ?8,
  sender_id = ?9, enabled = ?10, timezone = ?11, next_at = ?12, updated_at = ?13
WHERE id = ?1;

-- name: delete_schedule
DELETE FROM schedules WHERE id = ?;

-- name: due_schedules
SELECT id, label, agent_id, message, cron, run_at, channel, sender, sender_id, enabled, timezone, next_at, last_at, created_at,
       updated_at
FROM schedules INDEXED BY due_schedules WHERE enabled = 1 AND next_at IS NOT NULL AND next_at <= ? ORDER BY next_at;

-- name: next_schedule
SELECT min(next_at) FROM schedules INDEXED BY due_schedules WHERE enabled = 1 AND next_at IS NOT NULL;

-- name: advance_schedule
-- A schedule without a next due time is disabled but stays in the list.
UPDATE schedules SET last_at = ?2, next_at = ?3, enabled = ?3 IS NOT NULL WHERE id = ?1;
