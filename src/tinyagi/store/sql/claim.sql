-- Claims: the next message of a lane, the messages that share its run, and the lane's row.

-- name: claim_ready
-- The common case in one query on a free lane: the best message of the ready set picks the thread, and the thread's
-- oldest message runs, so priority never reorders a thread. Three more columns: the lane's count of holds (NULL for a
-- lane without a row), whether the lane has waiting messages (they need the full search), and whether room posts wait.
SELECT rows.*, lane.holds,
       EXISTS (SELECT 1 FROM messages INDEXED BY waiting_by_lane
               WHERE agent = ?1 AND status = 'pending' AND waits_for IS NOT NULL),
       EXISTS (SELECT 1 FROM messages INDEXED BY ready_room_posts
               WHERE agent = ?1 AND status = 'pending' AND waits_for IS NULL AND channel = 'chatroom')
FROM message_rows rows LEFT JOIN lanes lane ON lane.agent = ?1
WHERE rows.id = (
    SELECT min(id) FROM messages INDEXED BY pending_by_thread
    WHERE agent = ?1 AND status = 'pending' AND (waits_for IS NULL OR waits_for = 'thread') AND priority > -2
      AND thread = (
        SELECT thread FROM messages INDEXED BY ready_by_lane
        WHERE agent = ?1 AND status = 'pending' AND waits_for IS NULL AND priority > -2 AND thread IS NOT NULL
        ORDER BY priority DESC, id LIMIT 1))
  AND (lane.agent IS NULL OR (lane.claim_id IS NULL AND lane.paused = 0 AND lane.hold_until <= ?2));

-- name: free_lane_state
-- The count of holds of a lane that can be claimed: NULL for a lane without a row. No result
-- for a lane that is claimed, paused or held.
SELECT lane.holds FROM (SELECT ?1 AS agent) wanted LEFT JOIN lanes lane ON lane.agent = wanted.agent
WHERE lane.agent IS NULL OR (lane.claim_id IS NULL AND lane.paused = 0 AND lane.hold_until <= ?2);

-- name: ready_messages
-- The ready set in claim order. The last two columns may keep a message from running: its team, and a failed message of
-- its thread in back-off.
SELECT id, thread, team, EXISTS (
    SELECT 1 FROM messages failed INDEXED BY backing_off
    WHERE failed.agent = m.agent AND failed.thread = m.thread AND failed.status = 'pending'
      AND failed.waits_for = 'time' AND failed.retry_count > 0)
FROM messages m INDEXED BY ready_by_lane
WHERE agent = ?1 AND status = 'pending' AND waits_for IS NULL AND priority > -2 AND thread IS NOT NULL
ORDER BY priority DESC, id LIMIT ?2;

-- name: thread_messages
-- A thread in order, from a message id on.
SELECT * FROM message_rows rows WHERE rows.id IN (
  SELECT id FROM messages INDEXED BY pending_by_thread
  WHERE agent = :agent AND thread = :thread AND id >= :from AND status = 'pending'
    AND (waits_for IS NULL OR waits_for = 'thread') AND priority > -2
  ORDER BY id LIMIT :limit)
ORDER BY rows.id;

-- name: messages_in_order
-- Those of the given messages (a JSON array) that overtake nothing: every older message of their thread is given too.
SELECT * FROM message_rows rows
WHERE rows.id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (
    SELECT 1 FROM messages older INDEXED BY pending_by_thread
    WHERE older.agent = rows.agent AND older.thread = rows.thread AND older.id < rows.id AND older.status = 'pending'
      AND (older.waits_for IS NULL OR older.waits_for = 'thread') AND older.priority > -2
      AND older.id NOT IN (SELECT value FROM json_each(:ids)))
ORDER BY rows.id;

-- name: next_room
-- Jumps from room to room by index, so the cost does not grow with the posts in a room.
SELECT min(thread) FROM messages INDEXED BY ready_room_posts
WHERE agent = ?1 AND status = 'pending' AND waits_for IS NULL AND channel = 'chatroom' AND thread > ?2;

-- name: room_posts
-- Posts that start a run first, then passive ones.
SELECT * FROM message_rows rows WHERE rows.id IN (
  SELECT id FROM messages INDEXED BY ready_room_posts
  WHERE agent = ?1 AND thread = ?2 AND status = 'pending' AND waits_for IS NULL AND channel = 'chatroom'
  ORDER BY priority DESC, id LIMIT ?3);

-- name: is_backing_off
SELECT EXISTS (
  SELECT 1 FROM messages INDEXED BY backing_off
  WHERE agent = ?1 AND thread = ?2 AND status = 'pending' AND waits_for = 'time' AND retry_count > 0);

-- name: promote_due
-- The earliest slice of a lane's due messages.
UPDATE OR FAIL messages SET waits_for = NULL WHERE id IN (
  SELECT id FROM messages INDEXED BY waiting_by_lane
  WHERE agent = :agent AND status = 'pending' AND waits_for IS NOT NULL AND waits_for = 'time' AND available_at <= :now
  ORDER BY available_at LIMIT :limit)
RETURNING thread, retry_count;

-- name: park_message
UPDATE OR FAIL messages SET waits_for = ?2 WHERE id = ?1 AND status = 'pending' AND waits_for IS NULL;

-- name: unpark_thread
-- The best ones in claim order: they decide the thread's turn.
UPDATE OR FAIL messages SET waits_for = NULL WHERE id IN (
  SELECT id FROM messages INDEXED BY waiting_for_thread
  WHERE agent = ?1 AND thread = ?2 AND status = 'pending' AND waits_for = 'thread'
  ORDER BY priority DESC, id LIMIT ?3);

-- name: next_parked_team
SELECT min(team) FROM messages INDEXED BY waiting_for_team
WHERE agent = ?1 AND status = 'pending' AND waits_for = 'team' AND team > ?2;

-- name: unpark_team
UPDATE OR FAIL messages SET waits_for = NULL WHERE id IN (
  SELECT id FROM messages INDEXED BY waiting_for_team
  WHERE agent = ?1 AND team = ?2 AND status = 'pending' AND waits_for = 'team' ORDER BY id LIMIT ?3);

-- name: open_lane
INSERT INTO lanes (agent, claim_id, claim_ids, owner, lease_until) VALUES (?, ?, ?, ?, ?);

-- name: take_lane
-- Under the write lock the condition always holds; a bug that breaks it then fails loudly.
UPDATE lanes SET claim_id = ?2, claim_ids = ?3, owner = ?4, lease_until = ?5 WHERE agent = ?1 AND claim_id IS NULL;

-- name: renew_lane
UPDATE lanes SET lease_until = ?3 WHERE agent = ?1 AND claim_id = ?2;

-- name: free_lane
UPDATE lanes SET claim_id = NULL, claim_ids = NULL, owner = NULL, lease_until = NULL WHERE agent = ?1 AND claim_id = ?2;

-- name: free_lane_after_success
UPDATE lanes SET claim_id = NULL, claim_ids = NULL, owner = NULL, lease_until = NULL, holds = 0,
  hold_until = 0, hold_reason = NULL, hold_cause = NULL
WHERE agent = ?1 AND claim_id = ?2;

-- name: claimed_lanes
SELECT agent, claim_id, owner, lease_until FROM lanes WHERE claim_id IS NOT NULL;

-- name: abandon_claims
-- For a copy of the database: every lease has ended, so the first engine that opens the copy recovers all claims.
UPDATE lanes SET owner = :owner, lease_until = 0 WHERE claim_id IS NOT NULL;

-- name: hold_lane
INSERT INTO lanes (agent, hold_until, hold_reason, hold_cause, holds) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (agent) DO UPDATE SET hold_until = excluded.hold_until, hold_reason = excluded.hold_reason,
  hold_cause = excluded.hold_cause, holds = excluded.holds;

-- name: pause_lane
INSERT INTO lanes (agent, paused) VALUES (?, 1) ON CONFLICT (agent) DO UPDATE SET paused = 1 WHERE paused = 0;

-- name: resume_lane
UPDATE lanes SET paused = 0, hold_until = 0, hold_reason = NULL, hold_cause = NULL, holds = 0
WHERE agent = ? AND (paused = 1 OR hold_until > 0);

-- name: lane_rows
SELECT agent, paused, hold_until, hold_reason, hold_cause, holds, claim_id, owner, lease_until FROM lanes ORDER BY agent;
