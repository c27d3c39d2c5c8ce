-- Where agents go on, what runs cost, and what the loop brakes count.

-- The session that a provider keeps for an agent. `thread` is empty when the agent has one for everything it does.
CREATE TABLE sessions (
  agent      TEXT NOT NULL,
  thread     TEXT NOT NULL,
  provider   TEXT NOT NULL,
  session_id TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (agent, thread, provider)
) WITHOUT ROWID;

-- The turns themselves, for providers that keep no sessions. Ids count within a thread.
CREATE TABLE turns (
  agent      TEXT NOT NULL,
  thread     TEXT NOT NULL,
  id         INTEGER NOT NULL,
  role       TEXT NOT NULL CHECK (role = 'user' OR role = 'assistant'),
  content    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (agent, thread, id)
) WITHOUT ROWID;

-- The run that was going on when the agent was last reset: it began with what was forgotten, so it leaves no session.
CREATE TABLE session_resets (
  agent    TEXT PRIMARY KEY,
  claim_id TEXT
) WITHOUT ROWID;

CREATE TABLE spend (
  day    TEXT NOT NULL,
  scope  TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  cost   REAL NOT NULL,
  PRIMARY KEY (day, scope)
) WITHOUT ROWID;

-- How many messages agents sent into a lane within the last minute; what people send does not write it.
CREATE INDEX agent_to_agent ON messages (agent, created_at) WHERE from_agent IS NOT NULL;
