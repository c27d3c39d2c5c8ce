-- Traces: conversations as they went, from the messages that are still there and the log of their runs.

-- name: messages_of_conversation
-- The root by its name, the others by the index that holds only them.
SELECT * FROM message_rows WHERE id IN (
  SELECT id FROM messages WHERE message_id = ?1 AND conversation_id = ?1
  UNION ALL
  SELECT id FROM messages INDEXED BY descendants WHERE conversation_id = ?1 AND conversation_id <> message_id)
ORDER BY id;

-- name: runs_of_conversation
-- Of the conversation itself, and of those in whose runs its messages took part: the last event of such a message is
-- the beginning or the end of that run. ?2 is a JSON array of last events.
SELECT type, payload, created_at FROM events INDEXED BY runs_by_conversation
WHERE (type = 'chain_step_start' OR type = 'chain_step_done' OR type = 'message_failed' OR type = 'message_dead'
    OR type = 'message_stopped' OR type = 'message_released' OR type = 'message_recovered')
  AND conversation_id IN (
    SELECT ?1 UNION SELECT conversation_id FROM events WHERE id IN (SELECT value FROM json_each(?2)))
ORDER BY id;

-- name: recent_conversations
-- From the newest row backwards: roots are many among the messages, so that needs no index of them. What a
-- conversation used is counted where its runs were recorded.
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
