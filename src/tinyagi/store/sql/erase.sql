-- Erasing a person: find their rows, then redact each table. Sets are JSON arrays. A row belongs to the person by the
-- channel's sender id; without one, by one of their names. Rooms have names only.

-- name: sightings
-- Every channel, name and id under which rows or events mention this name or id. A person has an address in every group.
SELECT channel, sender, sender_id FROM messages WHERE sender = :sender OR person_of(channel, sender_id) = :sender_id
UNION SELECT channel, sender, sender_id FROM responses WHERE sender = :sender OR person_of(channel, sender_id) = :sender_id
UNION SELECT channel, sender, NULL FROM agent_messages WHERE role = 'user' AND sender = :sender
UNION SELECT :room, from_agent, NULL FROM chat_messages WHERE from_agent = :sender
UNION SELECT channel, sender, sender_id FROM pairing_requests WHERE sender = :sender OR person_of(channel, sender_id) = :sender_id
UNION SELECT channel, sender, sender_id FROM paired_senders WHERE sender = :sender OR person_of(channel, sender_id) = :sender_id
UNION SELECT who ->> 'channel', who ->> 'sender', who ->> 'sender_id' FROM (
  SELECT CASE type WHEN 'message_received' THEN payload -> 'message' WHEN 'response_ready' THEN payload -> 'response'
         ELSE payload -> 'row' END AS who
  FROM events WHERE (type = 'message_received' OR type = 'response_ready' OR type = 'row_imported')
    AND json_valid(payload))
WHERE (who ->> 'sender' = :sender AND ifnull(who ->> 'role', 'user') = 'user') OR person_of(who ->> 'channel', who ->> 'sender_id') = :sender_id;

-- name: former_erasures
SELECT DISTINCT target FROM audit_log WHERE action = :action;

-- name: channels_seen
SELECT channel FROM messages UNION SELECT channel FROM agent_messages UNION SELECT channel FROM responses;

-- name: messages_of_person
-- From the rows that are left and from the events, which outlive them.
SELECT message_id FROM messages
WHERE (channel = :channel AND (person_of(channel, sender_id) = :sender_id
                               OR (sender_id IS NULL AND sender IN (SELECT value FROM json_each(:names)))))
   OR (channel = :room AND sender IN (SELECT value FROM json_each(:names)))
UNION SELECT message_id FROM responses
WHERE channel = :channel AND (person_of(channel, sender_id) = :sender_id
                              OR (sender_id IS NULL AND sender IN (SELECT value FROM json_each(:names))))
UNION SELECT ifnull(message_id, who ->> 'message_id') FROM (
  SELECT message_id, CASE type WHEN 'message_received' THEN payload -> 'message'
                     WHEN 'response_ready' THEN payload -> 'response' ELSE payload -> 'row' END AS who
  FROM events
  WHERE (type = 'message_received' OR type = 'response_ready' OR type = 'row_imported') AND json_valid(payload)
    AND payload ->> 'table' IS NOT 'agent_messages' AND payload ->> 'table' IS NOT 'chat_messages')
WHERE ifnull(message_id, who ->> 'message_id') IS NOT NULL
  AND ((who ->> 'channel' = :channel
        AND (person_of(who ->> 'channel', who ->> 'sender_id') = :sender_id
             OR (who ->> 'sender_id' IS NULL AND who ->> 'sender' IN (SELECT value FROM json_each(:names)))))
       OR (who ->> 'channel' = :room AND who ->> 'sender' IN (SELECT value FROM json_each(:names))));

-- name: unknown_messages_of_person
-- A line of history has only the sender's name, so it counts where neither a message nor an event has more. The line of
-- a hand-off has the person's name and channel as well.
SELECT message_id FROM agent_messages
WHERE role = 'user' AND (channel = :channel OR channel = :room) AND sender IN (SELECT value FROM json_each(:names))
EXCEPT SELECT message_id FROM messages
EXCEPT SELECT message_id FROM events WHERE type = 'message_received';

-- name: lines_of_person
SELECT id FROM chat_messages WHERE from_agent IN (SELECT value FROM json_each(:names));

-- name: conversations_of_messages
-- Includes the conversation of the run's primary message: its answer may quote every message that shared the run.
SELECT conversation_id FROM messages
WHERE conversation_id IS NOT NULL AND message_id IN (
  SELECT value FROM json_each(:messages)
  UNION SELECT answered_by FROM messages WHERE message_id IN (SELECT value FROM json_each(:messages)))
UNION SELECT conversation_id FROM responses
WHERE conversation_id IS NOT NULL AND message_id IN (SELECT value FROM json_each(:messages))
UNION SELECT conversation_id FROM events
WHERE conversation_id IS NOT NULL AND message_id IN (SELECT value FROM json_each(:messages))
UNION SELECT e.conversation_id FROM events e, json_each(e.payload, '$.message_ids') AS taken
WHERE (e.type = 'chain_step_start' OR e.type = 'chain_step_done') AND e.conversation_id IS NOT NULL
  AND taken.value IN (SELECT value FROM json_each(:messages));

-- name: messages_of_conversations
SELECT message_id FROM messages WHERE conversation_id IN (SELECT value FROM json_each(:conversations))
UNION SELECT message_id FROM responses WHERE conversation_id IN (SELECT value FROM json_each(:conversations))
UNION SELECT message_id FROM events
WHERE message_id IS NOT NULL AND conversation_id IN (SELECT value FROM json_each(:conversations));

-- name: lines_of_conversations
SELECT payload ->> '$.post.id' FROM events
WHERE type = 'chat_posted' AND conversation_id IN (SELECT value FROM json_each(:conversations))
  AND payload ->> '$.post.id' IS NOT NULL;

-- name: agents_of_messages
SELECT agent FROM messages WHERE agent IS NOT NULL AND message_id IN (SELECT value FROM json_each(:messages))
UNION SELECT agent_id FROM agent_messages WHERE message_id IN (SELECT value FROM json_each(:messages))
UNION SELECT agent FROM events WHERE agent IS NOT NULL AND message_id IN (SELECT value FROM json_each(:messages));

-- name: files_of_messages
SELECT files FROM messages WHERE files IS NOT NULL AND message_id IN (SELECT value FROM json_each(:messages))
UNION SELECT files FROM responses WHERE files IS NOT NULL AND message_id IN (SELECT value FROM json_each(:messages));

-- name: count_open_messages
SELECT count(*) FROM messages
WHERE (status = 'pending' OR status = 'processing') AND message_id IN (SELECT value FROM json_each(:messages));

-- name: undelivered_responses
SELECT * FROM response_rows WHERE status = 'pending' AND message_id IN (SELECT value FROM json_each(:messages));

-- name: rename_message_sender
UPDATE messages SET sender = :pseudonym, sender_id = CASE WHEN sender_id IS NULL THEN NULL ELSE :pseudonym END
WHERE (channel = :channel AND (person_of(channel, sender_id) = :sender_id
                               OR (sender_id IS NULL AND sender IN (SELECT value FROM json_each(:names)))))
   OR (channel = :room AND sender IN (SELECT value FROM json_each(:names)));

-- name: threads_of_messages
SELECT DISTINCT thread FROM messages;

-- name: rename_thread
UPDATE messages SET thread = :to WHERE thread = :thread;

-- name: redact_messages
-- Keep an empty error in place of a text: whether there was an error decides how the message runs again.
UPDATE messages SET message = '', files = NULL, last_error = CASE WHEN last_error IS NULL THEN NULL ELSE '' END
WHERE message_id IN (SELECT value FROM json_each(:messages));

-- name: rename_response_sender
UPDATE responses SET sender = :pseudonym, sender_id = CASE WHEN sender_id IS NULL THEN NULL ELSE :pseudonym END
WHERE channel = :channel AND (person_of(channel, sender_id) = :sender_id
                              OR (sender_id IS NULL AND sender IN (SELECT value FROM json_each(:names))));

-- name: redact_responses
UPDATE responses SET message = '', original_message = '', files = NULL, metadata = NULL,
  last_error = CASE WHEN last_error IS NULL THEN NULL ELSE '' END
WHERE message_id IN (SELECT value FROM json_each(:messages));

-- name: redact_agent_messages
UPDATE agent_messages SET content = '',
  sender = CASE WHEN role = 'user' AND (channel = :channel OR channel = :room)
                     AND sender IN (SELECT value FROM json_each(:names)) THEN :pseudonym ELSE sender END
WHERE message_id IN (SELECT value FROM json_each(:messages));

-- name: redact_chat_messages
UPDATE chat_messages SET message = '',
  from_agent = CASE WHEN from_agent IN (SELECT value FROM json_each(:names)) THEN :pseudonym ELSE from_agent END
WHERE id IN (SELECT value FROM json_each(:lines));

-- name: redact_lanes
-- The provider's error text of a failed run. A budget's reason is TinyAGI's own text.
UPDATE lanes SET hold_reason = ''
WHERE hold_reason <> '' AND hold_reason IN (
  SELECT payload ->> 'reason' FROM events
  WHERE type = 'message_failed' AND message_id IN (SELECT value FROM json_each(:messages)));

-- name: redact_event
UPDATE events SET payload = ?2 WHERE id = ?1;

-- name: redact_comments
UPDATE comments SET author = :pseudonym, content = ''
WHERE author_type = 'user' AND author IN (SELECT value FROM json_each(:names));

-- name: audit_entries
SELECT id, who, target, detail FROM audit_log;

-- name: redact_audit_entry
UPDATE audit_log SET who = ?2, target = ?3, detail = ?4 WHERE id = ?1;

-- name: remembered_threads
SELECT agent, thread FROM sessions UNION SELECT agent, thread FROM turns;

-- name: erase_session
DELETE FROM sessions WHERE agent = ?1 AND thread = ?2;

-- name: erase_turns
DELETE FROM turns WHERE agent = ?1 AND thread = ?2;

-- name: erase_schedules
-- A schedule would keep sending the person's text.
DELETE FROM schedules WHERE channel = :channel AND sender IN (SELECT value FROM json_each(:names));

-- name: erase_pairing_requests
DELETE FROM pairing_requests WHERE channel = :channel AND sender_id = :sender_id;

-- name: erase_paired_senders
DELETE FROM paired_senders WHERE channel = :channel AND sender_id = :sender_id;

-- name: drop_legacy_events
-- The event log of another program has an unknown format, so a person's texts cannot be found in it.
DROP TABLE IF EXISTS legacy_events;

-- name: drop_legacy_conversation_responses
-- TinyClaw kept the state of running conversations here. It contains texts, and nothing reads it.
DROP TABLE IF EXISTS conversation_responses;

-- name: drop_legacy_conversation_agents
DROP TABLE IF EXISTS conversation_pending_agents;

-- name: drop_legacy_conversations
DROP TABLE IF EXISTS legacy_conversations;
