-- Lines of history name the teammate that wrote them, so that readers can leave out what agents say to each other.
ALTER TABLE agent_messages ADD COLUMN from_agent TEXT;

-- Older hand-offs begin with `[Message from teammate @coder]:`.
UPDATE agent_messages SET from_agent = substr(content, 25, instr(content, ']:') - 25)
WHERE role = 'user' AND message_id GLOB 'internal_*' AND content GLOB '[[]Message from teammate @*]:*';
