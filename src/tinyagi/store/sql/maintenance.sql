-- Maintenance: adopt rows of other tools, prune rows that are old and archived, and record rows again for a reader that
-- missed events. Each statement handles one short slice.

-- name: any_unadopted
SELECT EXISTS (SELECT 1 FROM messages WHERE thread IS NULL)
    OR EXISTS (SELECT 1 FROM responses WHERE last_event_id IS NULL)
    OR EXISTS (SELECT 1 FROM chat_messages WHERE last_event_id IS NULL)
    OR EXISTS (SELECT 1 FROM agent_messages WHERE last_event_id IS NULL);

-- name: unadopted_messages
-- In the order of `Message`. Columns that another tool left out are filled from the row itself where possible.
SELECT id, message_id, channel, sender, sender_id, message, agent, from_agent, files,
       ifnull(conversation_id, message_id), created_at, team, parent_message_id, hop, team, thread, priority, status,
       retry_count, last_error, available_at, claim_id, started_at, answered_by, created_at, updated_at, last_event_id
FROM messages WHERE thread IS NULL ORDER BY id LIMIT ?;

-- name: adopt_message
UPDATE messages SET agent = ?2, team = ?3, conversation_id = ?4, thread = ?5, priority = ?6, status = ?7,
  answered_by = ?8, updated_at = ?9, last_event_id = ?10, waits_for = CASE WHEN available_at > ?9 THEN 'time' END
WHERE id = ?1;

-- name: is_answered
SELECT EXISTS (SELECT 1 FROM responses WHERE message_id = ? AND agent = ? AND seq = 0);

-- name: count_conversation
-- A row that arrives finished adds to the total only.
INSERT INTO conversations (id, team, open, total, created_at) VALUES (?, ?, 0, 1, ?)
ON CONFLICT (id) DO UPDATE SET total = total + 1;

-- name: unadopted_responses
SELECT * FROM response_rows WHERE last_event_id IS NULL ORDER BY id LIMIT ?;

-- name: adopt_response
UPDATE responses SET last_event_id = ?2 WHERE id = ?1;

-- name: unadopted_chat_messages
SELECT id, team_id, from_agent, message, created_at FROM chat_messages WHERE last_event_id IS NULL ORDER BY id LIMIT ?;

-- name: adopt_chat_message
UPDATE chat_messages SET last_event_id = ?2 WHERE id = ?1;

-- name: unadopted_agent_messages
SELECT id, agent_id, role, channel, sender, message_id, content, created_at, from_agent
FROM agent_messages WHERE last_event_id IS NULL ORDER BY id LIMIT ?;

-- name: adopt_agent_message
UPDATE agent_messages SET last_event_id = ?2 WHERE id = ?1;

-- name: archive_floor
-- Without a durable reader, rows need not wait for an archive.
SELECT ifnull(min(position), 9223372036854775807) FROM cursors;

-- name: is_archived
-- With a lake, people can still read rows that were pruned here.
SELECT EXISTS (SELECT 1 FROM cursors WHERE consumer = 'lake');

-- name: prune_messages
-- The oldest slice by age, less the rows that a reader has not seen: the search never goes beyond the slice.
DELETE FROM messages WHERE id IN (
  SELECT id FROM (
    SELECT id, last_event_id FROM messages INDEXED BY finished_by_age
    WHERE status = :status AND (status = 'completed' OR status = 'dead') AND updated_at < :before
    ORDER BY updated_at LIMIT :limit)
  WHERE last_event_id <= :floor)
RETURNING conversation_id;

-- name: prune_conversation
-- A conversation has the id of its root. While the row exists, no new message takes that id: its answers would clash.
DELETE FROM conversations WHERE id = ?1 AND open = 0
  AND NOT EXISTS (SELECT 1 FROM messages WHERE message_id = ?1)
  AND NOT EXISTS (SELECT 1 FROM messages INDEXED BY descendants
                  WHERE conversation_id = ?1 AND conversation_id <> message_id)
  AND NOT EXISTS (SELECT 1 FROM responses WHERE message_id = ?1);

-- name: prune_responses
-- Returns message_id: a conversation waits for the answers to its root, which has the same id. Answers that other tools
-- wrote have no conversation_id.
DELETE FROM responses WHERE id IN (
  SELECT id FROM (
    SELECT id, last_event_id FROM responses INDEXED BY acked_by_age
    WHERE status = 'acked' AND acked_at < :before ORDER BY acked_at LIMIT :limit)
  WHERE last_event_id <= :floor)
RETURNING message_id;

-- name: prune_failed_responses
DELETE FROM responses WHERE id IN (
  SELECT id FROM (
    SELECT id, last_event_id FROM responses INDEXED BY failed_by_age
    WHERE status = 'failed' AND created_at < :before ORDER BY created_at LIMIT :limit)
  WHERE last_event_id <= :floor)
RETURNING message_id;

-- name: prune_history
-- Ids grow with time, so the oldest lines come first and need no index by age.
DELETE FROM agent_messages WHERE id IN (
  SELECT id FROM (SELECT id, last_event_id, created_at FROM agent_messages ORDER BY id LIMIT :limit)
  WHERE created_at < :before AND last_event_id <= :floor)
RETURNING agent_id, id;

-- name: prune_history_index
DELETE FROM history_index WHERE agent_id = ?1 AND id = ?2;

-- name: prune_chat_messages
DELETE FROM chat_messages WHERE id IN (
  SELECT id FROM (SELECT id, last_event_id, created_at FROM chat_messages ORDER BY id LIMIT :limit)
  WHERE created_at < :before AND last_event_id <= :floor);

-- name: prune_events
DELETE FROM events WHERE id IN (
  SELECT id FROM (SELECT id, created_at FROM events WHERE id <= :floor ORDER BY id LIMIT :limit)
  WHERE created_at < :before);

-- name: unfetched_responses
-- The oldest slice of a channel's responses that no client ever tried to deliver.
SELECT * FROM (
  SELECT * FROM response_rows WHERE id IN (
    SELECT id FROM responses INDEXED BY pending_by_channel
    WHERE status = 'pending' AND waits_for IS NULL AND channel = :channel ORDER BY id LIMIT :limit))
WHERE attempts = 0 AND created_at < :before AND last_event_id IS NOT NULL;

-- name: ends_of_slices
-- The last id of the next slice of each table, NULL beyond the last row. A slice counts rows, not matches, so its cost
-- depends neither on the size of the table nor on the number of matches.
SELECT (SELECT max(id) FROM (SELECT id FROM messages WHERE id > :messages ORDER BY id LIMIT :limit)),
       (SELECT max(id) FROM (SELECT id FROM responses WHERE id > :responses ORDER BY id LIMIT :limit)),
       (SELECT max(id) FROM (SELECT id FROM chat_messages WHERE id > :chat_messages ORDER BY id LIMIT :limit)),
       (SELECT max(id) FROM (SELECT id FROM agent_messages WHERE id > :agent_messages ORDER BY id LIMIT :limit));

-- name: untold_messages
-- Rows with events that a reader has not seen and the log no longer has.
SELECT m.* FROM message_rows m
WHERE m.id > :first AND m.id <= :last AND m.last_event_id > :after AND m.last_event_id < :before ORDER BY m.id;

-- name: untold_responses
SELECT * FROM response_rows
WHERE id > :first AND id <= :last AND last_event_id > :after AND last_event_id < :before ORDER BY id;

-- name: untold_chat_messages
SELECT id, team_id, from_agent, message, created_at FROM chat_messages
WHERE id > :first AND id <= :last AND last_event_id > :after AND last_event_id < :before ORDER BY id;

-- name: untold_agent_messages
SELECT id, agent_id, role, channel, sender, message_id, content, created_at, from_agent FROM agent_messages
WHERE id > :first AND id <= :last AND last_event_id > :after AND last_event_id < :before ORDER BY id;

-- name: told_message
UPDATE messages SET last_event_id = ?2 WHERE id = ?1;
