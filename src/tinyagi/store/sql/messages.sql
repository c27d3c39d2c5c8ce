-- Messages and their conversations. A conversation is all messages that descend from one incoming message; its row
-- counts them. Hot statements run for thousands of messages, so they take positional parameters. They use OR FAIL: the
-- writer rolls a refused operation back as a whole, so SQLite need not keep a statement journal for the triggers.

-- name: read_sequences
-- The next ids, from AUTOINCREMENT's own table under the write lock, and the last line of history that is indexed.
SELECT name, seq FROM sqlite_sequence UNION ALL SELECT 'history_index', through FROM history_indexed;

-- name: insert_message
-- Takes the columns of `enqueue.COLUMNS` in their order, then what the message waits for.
INSERT OR FAIL INTO messages (id, message_id, channel, sender, sender_id, message, agent, from_agent, files, conversation_id,
  parent_message_id, hop, team, thread, priority, available_at, created_at, updated_at, last_event_id, waits_for)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: message_id_in_use
-- Ignores the rows that this transaction writes: they start at id ?2 and have time ?3. A conversation keeps its id in
-- use after its root was pruned, as long as one of its other messages is left.
SELECT 1 FROM messages WHERE message_id = ?1 AND id < ?2
UNION ALL SELECT 1 FROM conversations WHERE id = ?1 AND created_at <> ?3;

-- name: start_message
UPDATE OR FAIL messages SET status = 'processing', waits_for = NULL, claim_id = ?2, claimed_by = agent, started_at = ?3,
  updated_at = ?3, last_event_id = ?4
WHERE id = ?1 AND status = 'pending';

-- name: finish_message
-- The condition on the claim keeps a stale holder from changing anything.
UPDATE OR FAIL messages SET status = 'completed', claim_id = NULL, answered_by = ?3, updated_at = ?4, last_event_id = ?5
WHERE id = ?1 AND claim_id = ?2;

-- name: return_message
-- Back to pending or on to dead, after a failure, a stop, a release or a crash. IS, not =: a message that is abandoned
-- before its run has no claim.
UPDATE OR FAIL messages SET status = ?3, claim_id = NULL, retry_count = ?4, last_error = ?5, available_at = ?6, priority = ?7,
  updated_at = ?8, last_event_id = ?9, waits_for = CASE WHEN ?3 = 'pending' AND ?6 > ?8 THEN 'time' END
WHERE id = ?1 AND claim_id IS ?2;

-- name: pending_of_lane
-- A slice of a lane, each part in the order of its index: first messages that wait for their time, because a message in
-- back-off goes before those it blocks; then thread by thread; then passive room posts and messages of held teams.
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
-- A delay moves along to the other lane; a wait for a thread or a team does not.
UPDATE OR FAIL messages SET agent = ?2, updated_at = ?3, last_event_id = ?4,
  waits_for = CASE WHEN waits_for = 'time' THEN 'time' END
WHERE id = ?1 AND status = 'pending';

-- name: waiting_messages
-- A page of pending messages of one lane or of all, oldest first, each with what it waits for and the message of its
-- thread that runs before it. Reads the backlogs beyond `after`, never finished messages.
SELECT rows.*, m.waits_for,
  CASE WHEN m.priority > -2 AND (m.waits_for IS NULL OR m.waits_for = 'thread') THEN ifnull(
    (SELECT min(id) FROM messages failed INDEXED BY backing_off
     WHERE failed.agent = m.agent AND failed.thread = m.thread AND failed.status = 'pending'
       AND failed.waits_for = 'time' AND failed.retry_count > 0),
    (SELECT min(id) FROM messages older INDEXED BY pending_by_thread
     WHERE older.agent = m.agent AND older.thread = m.thread AND older.id < m.id AND older.status = 'pending'
       AND (older.waits_for IS NULL OR older.waits_for = 'thread') AND older.priority > -2)) END
FROM (
  SELECT id FROM (
    SELECT ready.id FROM lane_counters CROSS JOIN messages ready INDEXED BY ready_by_lane
    WHERE pending > 0 AND (:agent IS NULL OR lane = :agent) AND ready.agent = lane AND ready.status = 'pending'
      AND ready.waits_for IS NULL AND ready.id > :after
    UNION ALL
    SELECT blocked.id FROM lane_counters CROSS JOIN messages blocked INDEXED BY waiting_by_lane
    WHERE pending > 0 AND (:agent IS NULL OR lane = :agent) AND blocked.agent = lane AND blocked.status = 'pending'
      AND blocked.waits_for IS NOT NULL AND blocked.id > :after)
  ORDER BY id LIMIT :limit) page
JOIN messages m ON m.id = page.id JOIN message_rows rows ON rows.id = page.id
ORDER BY page.id;

-- name: count_backing_off
SELECT count(*), min(available_at) FROM messages INDEXED BY backing_off
WHERE status = 'pending' AND waits_for = 'time' AND retry_count > 0;

-- name: message_by_message_id
SELECT * FROM message_rows WHERE message_id = ?;

-- name: message_by_id
SELECT * FROM message_rows WHERE id = ?;

-- name: messages_of_lane
-- The messages of the lane's claim.
SELECT * FROM message_rows
WHERE id IN (SELECT value FROM json_each((SELECT claim_ids FROM lanes WHERE agent = ?))) ORDER BY id;

-- name: revive_message
-- A person's retry: the attempts start at zero again, the last error stays.
UPDATE messages SET status = 'pending', retry_count = 0, available_at = 0, answered_by = NULL, message = ?2,
  priority = ?3, updated_at = ?4, last_event_id = ?5
WHERE id = ?1 AND status = 'dead';

-- name: delete_message
DELETE FROM messages WHERE id = ? AND status = 'dead';

-- name: dead_messages
-- The latest deaths first.
SELECT * FROM message_rows
WHERE status = 'dead' AND (status = 'completed' OR status = 'dead') AND (:agent IS NULL OR agent = :agent)
ORDER BY updated_at DESC, id DESC LIMIT :limit;

-- name: files_of_stored_messages
-- A full scan, which runs only after rows were pruned; see attached_files.
SELECT files FROM messages WHERE files IS NOT NULL;

-- name: processing_messages
SELECT * FROM message_rows
WHERE id IN (SELECT ids.value FROM lanes, json_each(lanes.claim_ids) ids) ORDER BY id;

-- name: upcoming_messages
-- The first messages of each lane, from its indexes: the cost grows with the lanes and the limit, not with the backlog.
SELECT * FROM message_rows WHERE id IN (
  SELECT m.id FROM lane_counters l CROSS JOIN messages m ON m.id IN (
    SELECT id FROM messages WHERE agent = l.lane AND status = 'pending' AND waits_for IS NULL
    ORDER BY priority DESC, id LIMIT :limit)
  WHERE l.pending > 0
  UNION ALL
  SELECT m.id FROM lane_counters l CROSS JOIN messages m ON m.id IN (
    SELECT id FROM messages WHERE agent = l.lane AND status = 'pending' AND waits_for IS NOT NULL
    ORDER BY waits_for, available_at LIMIT :limit)
  WHERE l.pending > 0)
ORDER BY id LIMIT :limit;

-- name: depth_by_lane
SELECT lane, pending, processing, completed, dead FROM lane_counters ORDER BY lane;

-- name: depth_by_channel
SELECT channel, pending, acked, failed FROM channel_counters ORDER BY channel;

-- name: claimable_lanes
-- Lanes with their pending messages and whether some are due but not promoted yet. Reads the counters and one index
-- entry per lane, not the backlog.
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
-- Messages that agents sent into a lane after an instant.
SELECT count(*) FROM messages INDEXED BY agent_to_agent
WHERE agent = ? AND from_agent IS NOT NULL AND created_at > ?;

-- name: next_due_at
-- The next instant at which a message in back-off, a delayed message or a held lane becomes due.
SELECT min(at) FROM (
  SELECT (SELECT min(available_at) FROM messages INDEXED BY waiting_by_lane
          WHERE agent = lane AND status = 'pending' AND waits_for IS NOT NULL AND waits_for = 'time' AND available_at > :now) AS at
  FROM lane_counters WHERE pending > 0
  UNION ALL
  SELECT min(hold_until) FROM lanes WHERE hold_until > :now);

-- name: conversation
SELECT created_at, team FROM conversations WHERE id = ?;

-- name: conversation_teams
-- One row for each conversation that belongs to a team, none for the others.
SELECT id, team FROM conversations WHERE id = ? AND team IS NOT NULL;

-- name: conversation_total
SELECT total FROM conversations WHERE id = ?;

-- name: give_to_team
-- Only the first team changes the row, so concurrent runs record its start once.
UPDATE conversations SET team = ?2 WHERE id = ?1 AND team IS NULL;

-- name: start_conversation
INSERT OR FAIL INTO conversations (id, team, open, total, created_at) VALUES (?, ?, 1, 1, ?);

-- name: join_conversation
INSERT OR FAIL INTO conversations (id, team, open, total, created_at) VALUES (?, ?, 1, 1, ?)
ON CONFLICT (id) DO UPDATE SET open = open + 1, total = total + 1;

-- name: leave_conversation
UPDATE OR FAIL conversations SET open = open - 1 WHERE id = ?;

-- name: ended_conversation
SELECT total FROM conversations WHERE id = ? AND open = 0;

-- name: reopen_conversation
UPDATE conversations SET open = open + 1 WHERE id = ?;

-- name: count_open_conversations
SELECT count FROM open_conversations;
