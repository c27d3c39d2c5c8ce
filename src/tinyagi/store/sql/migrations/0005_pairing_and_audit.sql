-- Who may write from a chat, and what was done with administrative rights.

-- One open code per person: asking again tells the same one.
CREATE TABLE pairing_requests (
  code       TEXT PRIMARY KEY,
  channel    TEXT NOT NULL,
  sender_id  TEXT NOT NULL,
  sender     TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  UNIQUE (channel, sender_id)
);

CREATE TABLE paired_senders (
  channel       TEXT NOT NULL,
  sender_id     TEXT NOT NULL,
  sender        TEXT NOT NULL,
  approved_at   INTEGER NOT NULL,
  approved_code TEXT,
  PRIMARY KEY (channel, sender_id)
);

-- AUTOINCREMENT because a page's cursor must never come to mean another entry.
CREATE TABLE audit_log (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,
  who    TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  detail TEXT NOT NULL
);
