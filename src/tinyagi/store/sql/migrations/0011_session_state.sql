-- What a provider must remember about a session besides its id; Codex: the tokens used so far. Earlier versions packed
-- that into the id.
ALTER TABLE sessions ADD COLUMN state TEXT;
