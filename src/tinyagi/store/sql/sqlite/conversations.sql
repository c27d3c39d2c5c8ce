-- Conversations: all messages that descend from one incoming message, counted as they come and go.

-- name: conversation
SELECT created_at, team FROM conversations WHERE id = ?;

-- name: conversation_teams
-- For many conversations in turn: those of a team answer, the others give no row.
SELECT id, team FROM conversations WHERE id = ? AND team IS NOT NULL;

-- name: conversation_total
SELECT total FROM conversations WHERE id = ?;

-- name: give_to_team
-- Only the first team changes the row, so its start is recorded once, whoever asks at the same time.
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
