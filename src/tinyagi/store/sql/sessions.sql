-- Sessions: where an agent resumes, by the provider's session id or by the stored turns. Spending: what each scope used
-- on a day.

-- name: session
SELECT session_id FROM sessions WHERE agent = ? AND thread = ? AND provider = ?;

-- name: sessions_of_lane
-- Sessions that a run may resume: the agent's own and the one of the thread. Two seeks: with OR SQLite would build a
-- temporary table, and every claim runs this.
SELECT agent, thread, provider, session_id, state FROM sessions WHERE agent = ?1 AND thread = ''
UNION ALL
SELECT agent, thread, provider, session_id, state FROM sessions WHERE agent = ?1 AND thread = ?2;

-- name: keep_session
INSERT INTO sessions (agent, thread, provider, session_id, state, updated_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (agent, thread, provider)
DO UPDATE SET session_id = excluded.session_id, state = excluded.state, updated_at = excluded.updated_at;

-- name: last_turn
SELECT ifnull(max(id), 0) FROM turns WHERE agent = ? AND thread = ?;

-- name: insert_turn
INSERT INTO turns (agent, thread, id, role, content, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: forget_old_turns
DELETE FROM turns WHERE agent = ? AND thread = ? AND id <= ?;

-- name: newest_turns
SELECT role, content FROM turns WHERE agent = :agent AND thread = :thread ORDER BY id DESC LIMIT :limit;

-- name: forget_sessions
DELETE FROM sessions WHERE agent = ?;

-- name: forget_turns
DELETE FROM turns WHERE agent = ?;

-- name: mark_reset
INSERT INTO session_resets (agent, claim_id)
VALUES (?1, (SELECT claim_id FROM lanes WHERE agent = ?1 AND claim_id IS NOT ?2))
ON CONFLICT (agent) DO UPDATE SET claim_id = excluded.claim_id;

-- name: was_reset
SELECT 1 FROM session_resets WHERE agent = ? AND claim_id = ?;

-- name: add_spend
INSERT INTO spend (day, scope, tokens, cost) VALUES (?, ?, ?, ?)
ON CONFLICT (day, scope) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost;

-- name: spend_of_day
SELECT scope, tokens, cost FROM spend WHERE day = ?;
