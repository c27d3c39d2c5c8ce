-- Imports a database of the original program: rename its tables, then copy each row into this schema with an event.

-- name: rename_messages
ALTER TABLE messages RENAME TO legacy_messages;

-- name: rename_responses
ALTER TABLE responses RENAME TO legacy_responses;

-- name: rename_chat_messages
ALTER TABLE chat_messages RENAME TO legacy_chat_messages;

-- name: rename_agent_messages
ALTER TABLE agent_messages RENAME TO legacy_agent_messages;

-- name: rename_events
-- An early version kept its own log in an unknown format: keep the table under another name, do not import it.
ALTER TABLE events RENAME TO legacy_events;

-- name: rename_conversations
-- A version of TinyClaw kept the state of running team conversations here; it means nothing after that process ended.
ALTER TABLE conversations RENAME TO legacy_conversations;

-- name: create_messages
CREATE TABLE legacy_messages (id INTEGER, message_id, channel, sender, sender_id, message, agent, from_agent, status,
  retry_count, last_error, created_at, updated_at, files, conversation_id, claimed_by);

-- name: create_responses
CREATE TABLE legacy_responses (id INTEGER, message_id, channel, sender, sender_id, message, original_message, agent,
  files, metadata, status, created_at, acked_at);

-- name: create_chat_messages
CREATE TABLE legacy_chat_messages (id INTEGER, team_id, from_agent, message, created_at);

-- name: create_agent_messages
CREATE TABLE legacy_agent_messages (id INTEGER, agent_id, role, channel, sender, message_id, content, created_at);

-- name: add_messages_sender_id
ALTER TABLE legacy_messages ADD COLUMN sender_id;

-- name: add_messages_agent
ALTER TABLE legacy_messages ADD COLUMN agent;

-- name: add_messages_from_agent
ALTER TABLE legacy_messages ADD COLUMN from_agent;

-- name: add_messages_files
ALTER TABLE legacy_messages ADD COLUMN files;

-- name: add_messages_conversation_id
ALTER TABLE legacy_messages ADD COLUMN conversation_id;

-- name: add_messages_claimed_by
ALTER TABLE legacy_messages ADD COLUMN claimed_by;

-- name: add_messages_retry_count
ALTER TABLE legacy_messages ADD COLUMN retry_count;

-- name: add_messages_last_error
ALTER TABLE legacy_messages ADD COLUMN last_error;

-- name: add_messages_updated_at
ALTER TABLE legacy_messages ADD COLUMN updated_at;

-- name: add_responses_sender_id
ALTER TABLE legacy_responses ADD COLUMN sender_id;

-- name: add_responses_original_message
ALTER TABLE legacy_responses ADD COLUMN original_message;

-- name: add_responses_agent
ALTER TABLE legacy_responses ADD COLUMN agent;

-- name: add_responses_files
ALTER TABLE legacy_responses ADD COLUMN files;

-- name: add_responses_metadata
ALTER TABLE legacy_responses ADD COLUMN metadata;

-- name: add_responses_acked_at
ALTER TABLE legacy_responses ADD COLUMN acked_at;

-- name: import_messages
-- The log is empty, so row numbers become event ids. A row in `processing` belongs to a process that is gone, and
-- `queued` is an older word for pending: both get no thread, so that adoption routes them. A finished row without an
-- agent was the default agent's.
INSERT INTO messages (id, message_id, channel, sender, sender_id, message, agent, from_agent, files, conversation_id,
  thread, status, retry_count, last_error, claimed_by, created_at, updated_at, last_event_id)
SELECT id, message_id, channel, sender, sender_id, message,
       CASE WHEN status IN ('pending', 'queued', 'processing') THEN agent
            ELSE coalesce(nullif(agent, ''), nullif(claimed_by, ''), :default_agent) END,
       from_agent, files, ifnull(conversation_id, message_id),
       CASE WHEN status IN ('pending', 'queued', 'processing') THEN NULL
            WHEN from_agent IS NOT NULL THEN '@' || from_agent || '/' || ifnull(conversation_id, message_id)
            ELSE channel || ':' || ifnull(sender_id, sender) END,
       CASE WHEN status IN ('pending', 'queued', 'processing') THEN 'pending'
            WHEN status = 'completed' THEN 'completed' ELSE 'dead' END,
       ifnull(retry_count, 0), last_error, claimed_by, created_at, ifnull(updated_at, created_at),
       row_number() OVER (ORDER BY id)
FROM legacy_messages;

-- name: import_conversations
-- Does not count pending messages: adoption counts them.
INSERT INTO conversations (id, team, open, total, created_at)
SELECT conversation_id, NULL, 0, sum(status <> 'pending'), min(created_at)
FROM messages GROUP BY conversation_id;

-- name: import_responses
-- The original could store an answer twice; each copy gets the next seq.
INSERT INTO responses (id, message_id, channel, sender, sender_id, message, original_message, agent, files, metadata,
  status, conversation_id, seq, created_at, acked_at, last_event_id)
SELECT r.id, r.message_id, r.channel, r.sender, r.sender_id, r.message, ifnull(r.original_message, ''), r.agent,
       r.files, r.metadata, CASE WHEN r.status = 'acked' THEN 'acked' ELSE 'pending' END,
       (SELECT m.conversation_id FROM messages m WHERE m.message_id = r.message_id),
       row_number() OVER (PARTITION BY r.message_id, r.agent ORDER BY r.id) - 1,
       r.created_at, CASE WHEN r.status = 'acked' THEN ifnull(r.acked_at, r.created_at) END,
       (SELECT count(*) FROM messages) + row_number() OVER (ORDER BY r.id)
FROM legacy_responses r;

-- name: import_chat_messages
INSERT INTO chat_messages (id, team_id, from_agent, message, created_at, last_event_id)
SELECT id, team_id, from_agent, message, created_at,
       (SELECT count(*) FROM messages) + (SELECT count(*) FROM responses) + row_number() OVER (ORDER BY id)
FROM legacy_chat_messages;

-- name: import_agent_messages
INSERT INTO agent_messages (id, agent_id, role, channel, sender, message_id, content, created_at, last_event_id)
SELECT id, agent_id, role, channel, sender, message_id, content, created_at,
       (SELECT count(*) FROM messages) + (SELECT count(*) FROM responses) + (SELECT count(*) FROM chat_messages)
       + row_number() OVER (ORDER BY id)
FROM legacy_agent_messages;

-- name: record_messages
INSERT INTO events (id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at)
SELECT m.last_event_id, 'row_imported', 1, m.message_id, m.conversation_id, c.created_at, m.agent,
       json_object('table', 'messages', 'row', json_object(
         'id', m.id, 'message_id', m.message_id, 'channel', m.channel, 'sender', m.sender, 'sender_id', m.sender_id,
         'message', m.message, 'agent', m.agent, 'from_agent', m.from_agent, 'files', m.files,
         'conversation_id', m.conversation_id, 'conversation_started_at', c.created_at,
         'conversation_team', c.team, 'parent_message_id', m.parent_message_id, 'hop', m.hop, 'team', m.team,
         'thread', m.thread, 'priority', m.priority, 'status', m.status, 'retry_count', m.retry_count,
         'last_error', m.last_error, 'available_at', m.available_at, 'claim_id', m.claim_id,
         'started_at', m.started_at, 'answered_by', m.answered_by, 'created_at', m.created_at,
         'updated_at', m.updated_at, 'last_event_id', m.last_event_id)), :now
FROM messages m JOIN conversations c ON c.id = m.conversation_id ORDER BY m.id;

-- name: record_responses
INSERT INTO events (id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at)
SELECT r.last_event_id, 'row_imported', 1, r.message_id, r.conversation_id, c.created_at, r.agent,
       json_object('table', 'responses', 'row', json_object(
         'id', r.id, 'message_id', r.message_id, 'channel', r.channel, 'sender', r.sender, 'sender_id', r.sender_id,
         'message', r.message, 'original_message', r.original_message, 'agent', r.agent, 'files', r.files,
         'metadata', r.metadata, 'status', r.status, 'conversation_id', r.conversation_id, 'seq', r.seq,
         'attempts', r.attempts, 'last_error', r.last_error, 'available_at', r.available_at,
         'created_at', r.created_at, 'acked_at', r.acked_at, 'last_event_id', r.last_event_id)), :now
FROM responses r LEFT JOIN conversations c ON c.id = r.conversation_id ORDER BY r.id;

-- name: record_chat_messages
INSERT INTO events (id, type, version, agent, payload, created_at)
SELECT last_event_id, 'row_imported', 1, from_agent,
       json_object('table', 'chat_messages', 'row', json_object('id', id, 'team_id', team_id,
         'from_agent', from_agent, 'message', message, 'created_at', created_at)), :now
FROM chat_messages ORDER BY id;

-- name: record_agent_messages
INSERT INTO events (id, type, version, message_id, agent, payload, created_at)
SELECT last_event_id, 'row_imported', 1, message_id, agent_id,
       json_object('table', 'agent_messages', 'row', json_object('id', id, 'agent_id', agent_id, 'role', role,
         'channel', channel, 'sender', sender, 'message_id', message_id, 'content', content,
         'created_at', created_at)), :now
FROM agent_messages ORDER BY id;

-- name: index_imported_history
INSERT INTO history_index (agent_id, id) SELECT agent_id, id FROM agent_messages;

-- name: keep_sequences
-- Ids of deleted rows must not return: the old sequence may be ahead of the highest remaining row.
UPDATE sqlite_sequence SET seq = max(seq, ifnull(
  (SELECT old.seq FROM sqlite_sequence old WHERE old.name = 'legacy_' || sqlite_sequence.name), 0))
WHERE name IN ('messages', 'responses', 'chat_messages', 'agent_messages');

-- name: drop_messages
DROP TABLE legacy_messages;

-- name: drop_responses
DROP TABLE legacy_responses;

-- name: drop_chat_messages
DROP TABLE legacy_chat_messages;

-- name: drop_agent_messages
DROP TABLE legacy_agent_messages;
