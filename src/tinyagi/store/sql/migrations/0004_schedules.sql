-- Schedules: messages that are sent when they are due, each due time once.

CREATE TABLE schedules (
  id         TEXT PRIMARY KEY,
  label      TEXT NOT NULL UNIQUE,
  agent_id   TEXT NOT NULL,
  message    TEXT NOT NULL,
  cron       TEXT,
  run_at     INTEGER,
  channel    TEXT NOT NULL,
  sender     TEXT NOT NULL,
  enabled    INTEGER NOT NULL CHECK (enabled = 0 OR enabled = 1),
  timezone   TEXT,
  next_at    INTEGER,
  last_at    INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((cron IS NULL) <> (run_at IS NULL)),
  -- What was sent for a due time is not due at it, or before it, again.
  CHECK (next_at IS NULL OR last_at IS NULL OR next_at > last_at)
);

CREATE INDEX due_schedules ON schedules (next_at) WHERE enabled = 1 AND next_at IS NOT NULL;
