-- Responses, chat rooms and history: what people and agents read.

-- name: insert_response
-- Takes the columns of `respond.COLUMNS` in their order.
INSERT OR FAIL INTO responses (id, message_id, channel, sender, sender_id, message, original_message, agent, files, metadata,
  status, conversation_id, seq, created_at, acked_at, last_event_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: next_notice
-- Seq 0 is kept for the answer.
SELECT ifnull(max(seq), 0) + 1 FROM responses WHERE message_id = ? AND agent IS ?;

-- name: response_by_id
SELECT * FROM response_rows WHERE id = ?;

-- name: pending_responses
-- FIFO per chat: a response that waits for its next try holds back what follows it in the same chat, and only that. The
-- last column is 1 for a response that is held back and not parked yet.
SELECT r.*, EXISTS (
    SELECT 1 FROM responses earlier INDEXED BY delivery_backing_off
    WHERE earlier.status = 'pending' AND earlier.attempts > 0 AND earlier.channel = r.channel
      AND earlier.sender_id IS r.sender_id AND (r.sender_id IS NOT NULL OR earlier.sender = r.sender)
      AND earlier.id < r.id AND earlier.available_at > :now)
FROM response_rows r
WHERE r.id IN (
  SELECT id FROM responses INDEXED BY pending_by_channel
  WHERE status = 'pending' AND waits_for IS NULL AND channel = :channel AND available_at <= :now
    AND last_event_id IS NOT NULL
  ORDER BY id LIMIT :limit)
ORDER BY r.id;

-- name: park_responses
-- What is held back among the oldest of a channel leaves the search until its chat goes on.
UPDATE responses SET waits_for = 'chat' WHERE id IN (
  SELECT r.id FROM (
    SELECT id, channel, sender_id, sender FROM responses INDEXED BY pending_by_channel
    WHERE status = 'pending' AND waits_for IS NULL AND channel = :channel AND available_at <= :now
    ORDER BY id LIMIT :limit) r
  WHERE EXISTS (
    SELECT 1 FROM responses earlier INDEXED BY delivery_backing_off
    WHERE earlier.status = 'pending' AND earlier.attempts > 0 AND earlier.channel = r.channel
      AND earlier.sender_id IS r.sender_id AND (r.sender_id IS NOT NULL OR earlier.sender = r.sender)
      AND earlier.id < r.id AND earlier.available_at > :now));

-- name: unpark_responses
-- The next ones of a chat, in order.
UPDATE responses SET waits_for = NULL WHERE id IN (
  SELECT id FROM responses INDEXED BY waiting_for_chat
  WHERE status = 'pending' AND waits_for = 'chat' AND channel = ?1 AND sender_id IS ?2
    AND (?2 IS NOT NULL OR sender = ?3)
  ORDER BY id LIMIT ?4);

-- name: recent_responses
SELECT * FROM response_rows WHERE last_event_id IS NOT NULL ORDER BY id DESC LIMIT ?;

-- name: ack_response
UPDATE responses SET status = 'acked', acked_at = ?2, last_event_id = ?3 WHERE id = ?1 AND status = 'pending';

-- name: fail_response
UPDATE responses SET status = ?2, attempts = ?3, last_error = ?4, available_at = ?5, last_event_id = ?6
WHERE id = ?1 AND status = 'pending';

-- name: insert_chat_message
INSERT INTO chat_messages (id, team_id, from_agent, message, created_at, last_event_id) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_history
INSERT INTO agent_messages (id, agent_id, role, channel, sender, message_id, content, created_at, last_event_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: index_history
INSERT INTO history_index (agent_id, id)
SELECT agent_id, id FROM agent_messages WHERE id > (SELECT through FROM history_indexed) ORDER BY agent_id, id;

-- name: mark_history_indexed
UPDATE history_indexed SET through = (SELECT ifnull(max(id), 0) FROM agent_messages);

-- name: history_page
-- Newest first; the two bounds are the page's cursors. The youngest lines are not in the index yet: they are few, and
-- looked through.
SELECT id, agent_id, role, channel, sender, message_id, content, created_at FROM agent_messages
WHERE id IN (
    SELECT id FROM history_index WHERE agent_id = :agent AND id < :before AND id > :since ORDER BY id DESC LIMIT :limit)
  OR (id > (SELECT through FROM history_indexed) AND agent_id = :agent AND id < :before AND id > :since)
ORDER BY id DESC LIMIT :limit;

-- name: history_of_all
SELECT id, agent_id, role, channel, sender, message_id, content, created_at FROM agent_messages
WHERE id < :before AND id > :since ORDER BY id DESC LIMIT :limit;

-- name: room_page
SELECT id, team_id, from_agent, message, created_at FROM chat_messages
WHERE team_id = :team AND id < :before AND id > :since ORDER BY id DESC LIMIT :limit;
