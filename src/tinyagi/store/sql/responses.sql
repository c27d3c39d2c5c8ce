-- Responses: answers and notices on their way to people.

-- name: insert_response
-- Takes the columns of `responses.COLUMNS` in their order.
INSERT OR FAIL INTO responses (id, message_id, channel, sender, sender_id, message, original_message, agent, files, metadata,
  status, conversation_id, seq, created_at, acked_at, last_event_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: next_notice
-- Seq 0 is reserved for the answer.
SELECT ifnull(max(seq), 0) + 1 FROM responses WHERE message_id = ? AND agent IS ?;

-- name: response_by_id
SELECT * FROM response_rows WHERE id = ?;

-- name: attached_files
-- A full scan, which runs only after rows were pruned. The row header says whether a column is null, so SQLite does not
-- read the long texts of rows without files.
SELECT files FROM responses WHERE files IS NOT NULL;

-- name: pending_responses
-- FIFO per chat: a response that waits for its next try blocks the later ones of the same chat, and no others; so does a
-- parked one, or a response that came after the parking would overtake it. The last column is 1 for a response that is
-- blocked but not parked yet.
SELECT r.*, EXISTS (
    SELECT 1 FROM responses earlier INDEXED BY delivery_backing_off
    WHERE earlier.status = 'pending' AND earlier.attempts > 0 AND earlier.channel = r.channel
      AND earlier.sender_id IS r.sender_id AND (r.sender_id IS NOT NULL OR earlier.sender = r.sender)
      AND earlier.id < r.id AND earlier.available_at > :now)
  OR EXISTS (
    SELECT 1 FROM responses parked INDEXED BY waiting_for_chat
    WHERE parked.status = 'pending' AND parked.waits_for = 'chat' AND parked.channel = r.channel
      AND parked.sender_id IS r.sender_id AND (r.sender_id IS NOT NULL OR parked.sender = r.sender)
      AND parked.id < r.id)
FROM response_rows r
WHERE r.id IN (
  SELECT id FROM responses INDEXED BY pending_by_channel
  WHERE status = 'pending' AND waits_for IS NULL AND channel = :channel AND available_at <= :now
    AND last_event_id IS NOT NULL
  ORDER BY id LIMIT :limit)
ORDER BY r.id;

-- name: park_responses
-- Park blocked responses among the oldest of a channel, so that later pages skip them until their chat continues.
UPDATE responses SET waits_for = 'chat' WHERE id IN (
  SELECT r.id FROM (
    SELECT id, channel, sender_id, sender FROM responses INDEXED BY pending_by_channel
    WHERE status = 'pending' AND waits_for IS NULL AND channel = :channel AND available_at <= :now
    ORDER BY id LIMIT :limit) r
  WHERE EXISTS (
    SELECT 1 FROM responses earlier INDEXED BY delivery_backing_off
    WHERE earlier.status = 'pending' AND earlier.attempts > 0 AND earlier.channel = r.channel
      AND earlier.sender_id IS r.sender_id AND (r.sender_id IS NOT NULL OR earlier.sender = r.sender)
      AND earlier.id < r.id AND earlier.available_at > :now)
  OR EXISTS (
    SELECT 1 FROM responses parked INDEXED BY waiting_for_chat
    WHERE parked.status = 'pending' AND parked.waits_for = 'chat' AND parked.channel = r.channel
      AND parked.sender_id IS r.sender_id AND (r.sender_id IS NOT NULL OR parked.sender = r.sender)
      AND parked.id < r.id));

-- name: unpark_responses
-- The next responses of a chat, in order.
UPDATE responses SET waits_for = NULL WHERE id IN (
  SELECT id FROM responses INDEXED BY waiting_for_chat
  WHERE status = 'pending' AND waits_for = 'chat' AND channel = ?1 AND sender_id IS ?2
    AND (?2 IS NOT NULL OR sender = ?3)
  ORDER BY id LIMIT ?4);

-- name: recent_responses
SELECT * FROM response_rows WHERE last_event_id IS NOT NULL AND (:agent IS NULL OR agent = :agent)
ORDER BY id DESC LIMIT :limit;

-- name: ack_response
UPDATE responses SET status = 'acked', acked_at = ?2, last_event_id = ?3 WHERE id = ?1 AND status = 'pending';

-- name: fail_response
UPDATE responses SET status = ?2, attempts = ?3, last_error = ?4, available_at = ?5, last_event_id = ?6
WHERE id = ?1 AND status = 'pending';
