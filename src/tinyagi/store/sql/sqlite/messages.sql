-- Messages on their way in and through the lane. Hot statements take positional parameters: they run by the thousand.
-- They say OR FAIL because a refused operation is rolled back as a whole by the writer: SQLite need not keep a journal
-- per statement for the triggers' sake.

-- name: read_sequences
-- AUTOINCREMENT's own table tells the next ids, read under the write lock. With them comes how far history is indexed.
SELECT name, seq FROM sqlite_sequence UNION ALL SELECT 'history_index', through FROM history_indexed;

-- name: insert_message
-- Takes the columns of `enqueue.COLUMNS` in their order, then what the message waits for.
INSERT OR FAIL INTO messages (id, message_id, channel, sender, sender_id, message, agent, from_agent, files, conversation_id,
  parent_message_id, hop, team, thread, priority, available_at, created_at, updated_at, last_event_id, waits_for)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: message_id_in_use
-- Before the rows that are being written, which begin with id ?2 and have the time ?3. Also by a conversation that
-- outlives its root: the root may be pruned while something that descends from it is not.
SELECT 1 FROM messages WHERE message_id = ?1 AND id < ?2
UNION ALL SELECT 1 FROM conversations WHERE id = ?1 AND created_at <> ?3;

-- name: start_message
UPDATE OR FAIL messages SET status = 'processing', waits_for = NULL, claim_id = ?2, claimed_by = agent, started_at = ?3,
  updated_at = ?3, last_event_id = ?4
WHERE id = ?1 AND status = 'pending';

-- name: finish_message
-- The claim in the condition is what makes a stale holder change nothing.
UPDATE OR FAIL messages SET status = 'completed', claim_id = NULL, answered_by = ?3, updated_at = ?4, last_event_id = ?5
WHERE id = ?1 AND claim_id = ?2;

-- name: return_message
-- Back to pending or on to dead, after a failure, a stop, a release or a crash. IS because what is abandoned before it
-- ran has no claim.
UPDATE OR FAIL messages SET status = ?3, claim_id = NULL, retry_count = ?4, last_error = ?5, available_at = ?6, priority = ?7,
  updated_at = ?8, last_event_id = ?9, waits_for = CASE WHEN ?3 = 'pending' AND ?6 > ?8 THEN 'time' END
WHERE id = ?1 AND claim_id IS ?2;

-- name: pending_of_lane
-- A slice of a lane, each part in the order of its index: first messages that wait for their time, because one in
-- back-off goes before what it holds up; then thread by thread; then what starts no run or waits for its team.
SELECT * FROM message_rows rows WHERE rows.id IN (
  SELECT id FROM (
    SELECT id FROM messages INDEXED BY waiting_by_lane
    WHERE agent = :agent AND status = 'pending' AND waits_for IS NOT NULL AND waits_for = 'time' AND thread IS NOT NULL
    UNION ALL
    SELECT id FROM (
      SELECT id FROM messages INDEXED BY pending_by_thread
      WHERE agent = :agent AND status = 'pending' AND (waits_for IS NULL OR waits_for = 'thread') AND priority > -2
        AND thread IS NOT NULL
      ORDER BY thread, id LIMIT :limit)
    UNION ALL
    SELECT id FROM messages INDEXED BY ready_by_lane
    WHERE agent = :agent AND status = 'pending' AND waits_for IS NULL AND priority <= -2 AND thread IS NOT NULL
    UNION ALL
    SELECT id FROM messages INDEXED BY waiting_for_team
    WHERE agent = :agent AND status = 'pending' AND waits_for = 'team')
  LIMIT :limit)
ORDER BY rows.id;

-- name: move_message
-- In the other lane only the time is still to be waited for.
UPDATE OR FAIL messages SET agent = ?2, updated_at = ?3, last_event_id = ?4,
  waits_for = CASE WHEN waits_for = 'time' THEN 'time' END
WHERE id = ?1 AND status = 'pending';

-- name: message_by_id
SELECT * FROM message_rows WHERE id = ?;

-- name: messages_of_lane
-- The messages of the lane's claim.
SELECT * FROM message_rows
WHERE id IN (SELECT value FROM json_each((SELECT claim_ids FROM lanes WHERE agent = ?))) ORDER BY id;

-- name: revive_message
-- A person's retry: a fresh budget, the history of errors stays.
UPDATE messages SET status = 'pending', retry_count = 0, available_at = 0, answered_by = NULL, message = ?2,
  priority = ?3, updated_at = ?4, last_event_id = ?5
WHERE id = ?1 AND status = 'dead';

-- name: delete_message
DELETE FROM messages WHERE id = ? AND status = 'dead';

-- name: dead_messages
-- Those that died last come first.
SELECT * FROM message_rows
WHERE status = 'dead' AND (status = 'completed' OR status = 'dead') AND (:agent IS NULL OR agent = :agent)
ORDER BY updated_at DESC, id DESC LIMIT :limit;

-- name: processing_messages
SELECT * FROM message_rows
WHERE id IN (SELECT ids.value FROM lanes, json_each(lanes.claim_ids) ids) ORDER BY id;

-- name: depth_by_lane
SELECT lane, pending, processing, completed, dead FROM lane_counters ORDER BY lane;

-- name: depth_by_channel
SELECT channel, pending, acked, failed FROM channel_counters ORDER BY channel;

-- name: claimable_lanes
-- Reads the counters and one entry of an index per lane, not the backlog. With each lane its count of pending messages
-- and whether some are due and not promoted yet.
SELECT lane, pending, is_due FROM (
  SELECT lane, pending, EXISTS (
    SELECT 1 FROM messages INDEXED BY waiting_by_lane
    WHERE agent = lane AND status = 'pending' AND waits_for IS NOT NULL AND waits_for = 'time' AND available_at <= :now) AS is_due
  FROM lane_counters WHERE pending > 0 AND lane <> '')
WHERE (is_due
    OR EXISTS (
      SELECT 1 FROM messages INDEXED BY ready_by_lane
      WHERE agent = lane AND status = 'pending' AND waits_for IS NULL AND priority > -2)
    OR EXISTS (
      SELECT 1 FROM messages INDEXED BY waiting_for_team
      WHERE agent = lane AND status = 'pending' AND waits_for = 'team'))
  AND NOT EXISTS (
    SELECT 1 FROM lanes l WHERE l.agent = lane AND (l.claim_id IS NOT NULL OR l.paused = 1 OR l.hold_until > :now))
ORDER BY lane;

-- name: count_from_agents
-- What agents sent into a lane after an instant.
SELECT count(*) FROM messages INDEXED BY agent_to_agent
WHERE agent = ? AND from_agent IS NOT NULL AND created_at > ?;

-- name: next_due_at
-- When something that waits for its time becomes due: a message in back-off, a delayed one, or a held lane.
SELECT min(at) FROM (
  SELECT (SELECT min(available_at) FROM messages INDEXED BY waiting_by_lane
          WHERE agent = lane AND status = 'pending' AND waits_for IS NOT NULL AND waits_for = 'time' AND available_at > :now) AS at
  FROM lane_counters WHERE pending > 0
  UNION ALL
  SELECT min(hold_until) FROM lanes WHERE hold_until > :now);
