-- A schedule whose answers go to a chat names the chat: the channel alone does not say whom to write to.
ALTER TABLE schedules ADD COLUMN sender_id TEXT;
