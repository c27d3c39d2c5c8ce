-- Claims: which message of a lane runs next, what shares its run, and the hold on the lane.

-- name: claim_ready
-- The common case in one cheap look at a free lane: the best message that needs no waiting, the lane's count of holds
-- (NULL while nobody has ever claimed, paused or held it), and whether the case is not that common: something waits for
-- its time, or something of lower priority is there. ?3 is the priority that starts no run.
SELECT rows.*, lane.holds,
       EXISTS (SELECT 1 FROM messages waiting INDEXED BY waiting_by_lane
               WHERE waiting.agent = ?1 AND waiting.status = 'pending' AND waiting.available_at > 0)
       OR EXISTS (SELECT 1 FROM messages lower INDEXED BY pending_by_lane
                  WHERE lower.agent = ?1 AND lower.status = 'pending' AND lower.available_at = 0
                    AND lower.priority < rows.priority)
FROM message_rows rows LEFT JOIN lanes lane ON lane.agent = ?1
WHERE rows.id = (
    SELECT id FROM messages INDEXED BY pending_by_lane
    WHERE agent = ?1 AND status = 'pending' AND available_at = 0 AND priority > ?3 AND thread IS NOT NULL
    ORDER BY priority DESC, id LIMIT 1)
  AND (lane.agent IS NULL OR (lane.claim_id IS NULL AND lane.paused = 0 AND lane.hold_until <= ?2));

-- name: claim_primary
-- In a lane that is free: the best by priority and id of what is ready and of what has waited long enough, unless its
-- thread waits for a retry. Priority moves whole threads: when the best one has an older message of its thread before
-- it, that one runs first. Passed over are room posts that start no run and what belongs to a held team (a JSON array).
-- The last column is the lane's count of holds, or NULL.
WITH ready AS (
  SELECT id, priority, thread FROM messages m INDEXED BY pending_by_lane
  WHERE agent = :agent AND status = 'pending' AND available_at = 0 AND priority > :passive AND thread IS NOT NULL
    AND (team IS NULL OR team NOT IN (SELECT value FROM json_each(:held)))
    AND NOT EXISTS (
      SELECT 1 FROM messages failed INDEXED BY backing_off
      WHERE failed.agent = :agent AND failed.thread = m.thread AND failed.status = 'pending'
        AND failed.retry_count > 0 AND failed.available_at > 0 AND failed.available_at > :now)
  ORDER BY priority DESC, id LIMIT 1),
waited AS (
  SELECT id, priority, thread FROM messages m INDEXED BY waiting_by_lane
  WHERE agent = :agent AND status = 'pending' AND available_at > 0 AND available_at <= :now AND thread IS NOT NULL
    AND (team IS NULL OR team NOT IN (SELECT value FROM json_each(:held)))
    AND NOT EXISTS (
      SELECT 1 FROM messages failed INDEXED BY backing_off
      WHERE failed.agent = :agent AND failed.thread = m.thread AND failed.status = 'pending'
        AND failed.retry_count > 0 AND failed.available_at > 0 AND failed.available_at > :now)
  ORDER BY priority DESC, id LIMIT 1),
best AS (
  SELECT id, priority, thread FROM (SELECT * FROM ready UNION ALL SELECT * FROM waited)
  ORDER BY priority DESC, id LIMIT 1)
SELECT rows.*, lane.holds FROM best LEFT JOIN lanes lane ON lane.agent = :agent
JOIN message_rows rows ON rows.id = min(
  ifnull((SELECT min(older.id) FROM messages older INDEXED BY pending_by_lane
          WHERE older.agent = :agent AND older.status = 'pending' AND older.available_at = 0
            AND older.priority < best.priority AND older.priority > :passive AND older.thread = best.thread
            AND older.id < best.id
            AND (older.team IS NULL OR older.team NOT IN (SELECT value FROM json_each(:held)))), best.id),
  ifnull((SELECT min(older.id) FROM messages older INDEXED BY waiting_by_lane
          WHERE older.agent = :agent AND older.status = 'pending' AND older.available_at > 0
            AND older.available_at <= :now AND older.thread = best.thread AND older.id < best.id
            AND (older.team IS NULL OR older.team NOT IN (SELECT value FROM json_each(:held)))), best.id))
WHERE lane.agent IS NULL OR (lane.claim_id IS NULL AND lane.paused = 0 AND lane.hold_until <= :now);

-- name: claim_thread
-- What follows the primary in its chat, in order; the search ends at the limit however long the backlog is.
SELECT * FROM message_rows rows WHERE rows.id IN (
  SELECT id FROM messages INDEXED BY pending_chats
  WHERE agent = :agent AND thread = :thread AND id > :primary AND status = 'pending' AND available_at <= :now
    AND (channel = 'discord' OR channel = 'telegram' OR channel = 'whatsapp' OR channel = 'web')
    AND (team IS NULL OR team NOT IN (SELECT value FROM json_each(:held)))
  ORDER BY id LIMIT :limit)
ORDER BY rows.id;

-- name: claim_room_posts
-- From a priority downwards: first those that wake, then those that only come along.
SELECT * FROM message_rows rows WHERE rows.id IN (
  SELECT id FROM messages post INDEXED BY pending_by_lane
  WHERE agent = :agent AND status = 'pending' AND available_at = 0 AND priority <= :priority AND channel = :channel
    AND (team IS NULL OR team NOT IN (SELECT value FROM json_each(:held)))
    AND NOT EXISTS (
      SELECT 1 FROM messages failed INDEXED BY backing_off
      WHERE failed.agent = :agent AND failed.thread = post.thread AND failed.status = 'pending'
        AND failed.retry_count > 0 AND failed.available_at > 0 AND failed.available_at > :now)
  ORDER BY priority DESC, id LIMIT :limit)
ORDER BY rows.id;

-- name: claim_everything
-- In claim order; what has an older message before it in its thread that is not taken now, because its priority is
-- lower or because it has waited for its time, stays behind that one.
SELECT * FROM message_rows rows WHERE rows.id IN (
  SELECT id FROM messages m INDEXED BY pending_by_lane
  WHERE agent = :agent AND status = 'pending' AND available_at = 0 AND thread IS NOT NULL
    AND (team IS NULL OR team NOT IN (SELECT value FROM json_each(:held)))
    AND NOT EXISTS (
      SELECT 1 FROM messages failed INDEXED BY backing_off
      WHERE failed.agent = :agent AND failed.thread = m.thread AND failed.status = 'pending'
        AND failed.retry_count > 0 AND failed.available_at > 0 AND failed.available_at > :now)
    AND NOT EXISTS (
      SELECT 1 FROM messages older INDEXED BY pending_by_lane
      WHERE older.agent = :agent AND older.status = 'pending' AND older.available_at = 0
        AND older.priority < m.priority AND older.priority > :passive AND older.thread = m.thread AND older.id < m.id
        AND (older.team IS NULL OR older.team NOT IN (SELECT value FROM json_each(:held))))
    AND NOT EXISTS (
      SELECT 1 FROM messages older INDEXED BY waiting_by_lane
      WHERE older.agent = :agent AND older.status = 'pending' AND older.available_at > 0 AND older.available_at <= :now
        AND older.thread = m.thread AND older.id < m.id
        AND (older.team IS NULL OR older.team NOT IN (SELECT value FROM json_each(:held))))
  ORDER BY priority DESC, id LIMIT :limit)
ORDER BY rows.id;

-- name: open_lane
INSERT INTO lanes (agent, claim_id, claim_ids, owner, lease_until) VALUES (?, ?, ?, ?, ?);

-- name: take_lane
-- The condition cannot fail under the write lock; it is here so that a bug fails loudly.
UPDATE lanes SET claim_id = ?2, claim_ids = ?3, owner = ?4, lease_until = ?5 WHERE agent = ?1 AND claim_id IS NULL;

-- name: renew_lane
UPDATE lanes SET lease_until = ?3 WHERE agent = ?1 AND claim_id = ?2;

-- name: free_lane
UPDATE lanes SET claim_id = NULL, claim_ids = NULL, owner = NULL, lease_until = NULL WHERE agent = ?1 AND claim_id = ?2;

-- name: free_lane_after_success
UPDATE lanes SET claim_id = NULL, claim_ids = NULL, owner = NULL, lease_until = NULL, holds = 0,
  hold_until = 0, hold_reason = NULL
WHERE agent = ?1 AND claim_id = ?2;

-- name: claimed_lanes
SELECT agent, claim_id, owner, lease_until FROM lanes WHERE claim_id IS NOT NULL;

-- name: hold_lane
INSERT INTO lanes (agent, hold_until, hold_reason, holds) VALUES (?, ?, ?, ?)
ON CONFLICT (agent) DO UPDATE SET hold_until = excluded.hold_until, hold_reason = excluded.hold_reason,
  holds = excluded.holds;

-- name: pause_lane
INSERT INTO lanes (agent, paused) VALUES (?, 1) ON CONFLICT (agent) DO UPDATE SET paused = 1 WHERE paused = 0;

-- name: resume_lane
UPDATE lanes SET paused = 0, hold_until = 0, hold_reason = NULL, holds = 0
WHERE agent = ? AND (paused = 1 OR hold_until > 0);

-- name: lane_rows
SELECT agent, paused, hold_until, hold_reason, holds, claim_id, owner, lease_until FROM lanes ORDER BY agent;
