-- History, chat rooms and traces: what people read about conversations, from the rows that are still in the database.

-- name: insert_chat_message
INSERT INTO chat_messages (id, team_id, from_agent, message, created_at, last_event_id) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_history
INSERT INTO agent_messages (id, agent_id, role, channel, sender, message_id, content, created_at, last_event_id,
  from_agent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: index_history
INSERT INTO history_index (agent_id, id)
SELECT agent_id, id FROM agent_messages WHERE id > (SELECT through FROM history_indexed) ORDER BY agent_id, id;

-- name: mark_history_indexed
UPDATE history_indexed SET through = (SELECT ifnull(max(id), 0) FROM agent_messages);

-- name: history_page
-- Newest first; the two bounds are the page's cursors. The newest lines are not indexed yet: they are few, so a scan
-- finds them. Lines from agents and rooms are filtered while reading: most are followed by an answer.
SELECT id, agent_id, role, channel, sender, message_id, content, created_at, from_agent FROM agent_messages
WHERE id IN (
    SELECT history_index.id FROM history_index CROSS JOIN agent_messages line ON line.id = history_index.id
    WHERE history_index.agent_id = :agent AND history_index.id < :before AND history_index.id > :since
      AND (:internal OR (line.from_agent IS NULL AND (line.role <> 'user' OR line.channel <> 'chatroom')))
    ORDER BY history_index.id DESC LIMIT :limit)
  OR (id > (SELECT through FROM history_indexed) AND agent_id = :agent AND id < :before AND id > :since
      AND (:internal OR (from_agent IS NULL AND (role <> 'user' OR channel <> 'chatroom'))))
ORDER BY id DESC LIMIT :limit;

-- name: history_of_all
SELECT id, agent_id, role, channel, sender, message_id, content, created_at, from_agent FROM agent_messages
WHERE id < :before AND id > :since
  AND (:internal OR (from_agent IS NULL AND (role <> 'user' OR channel <> 'chatroom')))
ORDER BY id DESC LIMIT :limit;

-- name: room_page
SELECT id, team_id, from_agent, message, created_at FROM chat_messages
WHERE team_id = :team AND id < :before AND id > :since ORDER BY id DESC LIMIT :limit;

-- name: messages_of_conversation
-- The root by its id, the others by the index of descendants.
SELECT * FROM message_rows WHERE id IN (
  SELECT id FROM messages WHERE message_id = ?1 AND conversation_id = ?1
  UNION ALL
  SELECT id FROM messages INDEXED BY descendants WHERE conversation_id = ?1 AND conversation_id <> message_id)
ORDER BY id;

-- name: runs_of_conversation
-- Runs of the conversation, and runs of other conversations that its messages shared: the last event of such a message
-- is the start or the end of that run. ?2 is a JSON array of last event ids.
SELECT type, payload, created_at FROM events INDEXED BY runs_by_conversation
WHERE (type = 'chain_step_start' OR type = 'chain_step_done' OR type = 'message_failed' OR type = 'message_dead'
    OR type = 'message_stopped' OR type = 'message_released' OR type = 'message_recovered')
  AND conversation_id IN (
    SELECT ?1 UNION SELECT conversation_id FROM events WHERE id IN (SELECT value FROM json_each(?2)))
ORDER BY id;

-- name: recent_conversations
-- Scans from the newest row backwards: many messages are roots, so they need no index. Usage is summed from the events
-- of the conversation's runs.
WITH roots AS (
  SELECT id, message_id, channel, sender, agent, message, status, updated_at FROM messages
  WHERE conversation_id = message_id ORDER BY id DESC LIMIT :limit)
SELECT c.id, c.team, root.channel, root.sender, root.agent, root.message, c.open, c.total,
       (root.status = 'dead') + count(CASE WHEN m.status = 'dead' THEN 1 END),
       ifnull(max(m.hop), 0),
       (SELECT ifnull(sum(ifnull(json_extract(payload, '$.usage.input_tokens'), 0)
                        + ifnull(json_extract(payload, '$.usage.output_tokens'), 0)
                        + ifnull(json_extract(payload, '$.usage.cache_tokens'), 0)), 0)
        FROM events INDEXED BY runs_by_conversation
        WHERE conversation_id = c.id
          AND (type = 'chain_step_start' OR type = 'chain_step_done' OR type = 'message_failed' OR type = 'message_dead'
            OR type = 'message_stopped' OR type = 'message_released' OR type = 'message_recovered')),
       (SELECT total(json_extract(payload, '$.usage.cost'))
        FROM events INDEXED BY runs_by_conversation
        WHERE conversation_id = c.id
          AND (type = 'chain_step_start' OR type = 'chain_step_done' OR type = 'message_failed' OR type = 'message_dead'
            OR type = 'message_stopped' OR type = 'message_released' OR type = 'message_recovered')),
       c.created_at, max(root.updated_at, ifnull(max(m.updated_at), 0))
FROM roots root JOIN conversations c ON c.id = root.message_id
LEFT JOIN messages m INDEXED BY descendants
  ON m.conversation_id = root.message_id AND m.conversation_id <> m.message_id
GROUP BY root.id ORDER BY root.id DESC;
