-- The ready set: a claim reads only messages that can run now. Every other pending message says what it waits for, so
-- a backlog that cannot run costs a claim nothing.
--   time    its due instant (a delay or a back-off); promoted when it comes
--   thread  another message of its thread is in back-off; back in the ready set with its thread's next turn
--   team    its team's budget is spent; back in the ready set when a claim no longer names the team
ALTER TABLE messages ADD COLUMN waits_for TEXT
  CHECK (waits_for IS NULL OR waits_for = 'time' OR waits_for = 'thread' OR waits_for = 'team');

UPDATE messages SET waits_for = 'time' WHERE status = 'pending' AND available_at > 0;

DROP INDEX pending_by_lane;
DROP INDEX waiting_by_lane;
DROP INDEX backing_off;
DROP INDEX pending_chats;

CREATE INDEX ready_by_lane ON messages (agent, priority DESC, id) WHERE status = 'pending' AND waits_for IS NULL;
-- The order of a thread. Room posts that start no run (priority -2) hold back nothing, so they are not in it.
CREATE INDEX pending_by_thread ON messages (agent, thread, id)
  WHERE status = 'pending' AND (waits_for IS NULL OR waits_for = 'thread') AND priority > -2;
CREATE INDEX ready_room_posts ON messages (agent, thread, priority DESC, id)
  WHERE status = 'pending' AND waits_for IS NULL AND channel = 'chatroom';
CREATE INDEX waiting_by_lane ON messages (agent, waits_for, available_at)
  WHERE status = 'pending' AND waits_for IS NOT NULL;
CREATE INDEX backing_off ON messages (agent, thread)
  WHERE status = 'pending' AND waits_for = 'time' AND retry_count > 0;
CREATE INDEX waiting_for_thread ON messages (agent, thread, priority DESC, id)
  WHERE status = 'pending' AND waits_for = 'thread';
CREATE INDEX waiting_for_team ON messages (agent, team, id) WHERE status = 'pending' AND waits_for = 'team';

-- Open conversations in O(1), kept as the queue's other counters are. An index of them would cost every message more.
DROP INDEX open_conversations;

CREATE TABLE open_conversations (count INTEGER NOT NULL);
INSERT INTO open_conversations SELECT count(*) FROM conversations WHERE open > 0;

CREATE TRIGGER count_conversation_in AFTER INSERT ON conversations WHEN new.open > 0 BEGIN
  UPDATE open_conversations SET count = count + 1;
END;

CREATE TRIGGER count_conversation_open AFTER UPDATE OF open ON conversations
WHEN (old.open > 0) <> (new.open > 0) BEGIN
  UPDATE open_conversations SET count = count + (new.open > 0) - (old.open > 0);
END;

CREATE TRIGGER count_conversation_out AFTER DELETE ON conversations WHEN old.open > 0 BEGIN
  UPDATE open_conversations SET count = count - 1;
END;

-- Responses have a ready set, too: those behind a failed delivery wait for their chat.
ALTER TABLE responses ADD COLUMN waits_for TEXT CHECK (waits_for IS NULL OR waits_for = 'chat');

DROP INDEX pending_by_channel;
CREATE INDEX pending_by_channel ON responses (channel, id) WHERE status = 'pending' AND waits_for IS NULL;
CREATE INDEX waiting_for_chat ON responses (channel, sender_id, sender, id)
  WHERE status = 'pending' AND waits_for = 'chat';
