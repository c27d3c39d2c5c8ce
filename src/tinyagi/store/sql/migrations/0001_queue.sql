-- The queue: messages, lanes, conversations, responses, rooms, history, the event log and its readers.
-- Checks and partial indexes spell out OR instead of IN: SQLite builds a temporary table for a longer IN list, and does
-- so again for every row that is written.

-- Other tools insert rows with the columns they know, so every column of ours has a default. Such a row has no thread
-- yet; adoption routes it. AUTOINCREMENT because an id is a key in the lake and must never name two rows.
CREATE TABLE messages (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id        TEXT NOT NULL UNIQUE,
  channel           TEXT NOT NULL,
  sender            TEXT NOT NULL,
  sender_id         TEXT,
  message           TEXT NOT NULL,
  agent             TEXT,
  from_agent        TEXT,
  files             TEXT,
  conversation_id   TEXT,
  parent_message_id TEXT,
  hop               INTEGER NOT NULL DEFAULT 0,
  team              TEXT,
  thread            TEXT,
  priority          INTEGER NOT NULL DEFAULT 0,
  status            TEXT NOT NULL DEFAULT 'pending'
                    CHECK (status = 'pending' OR status = 'processing' OR status = 'completed' OR status = 'dead'),
  retry_count       INTEGER NOT NULL DEFAULT 0,
  last_error        TEXT,
  available_at      INTEGER NOT NULL DEFAULT 0,
  claimed_by        TEXT,
  claim_id          TEXT,
  started_at        INTEGER,
  answered_by       TEXT,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  last_event_id     INTEGER,
  CHECK ((status = 'processing') = (claim_id IS NOT NULL))
);

-- The claim's index is narrow and holds only what needs no waiting: every enqueue and every claim writes it.
CREATE INDEX pending_by_lane ON messages (agent, priority DESC, id) WHERE status = 'pending' AND available_at = 0;
-- What waits for its time, by delay or by back-off, and the threads that a back-off holds up.
CREATE INDEX waiting_by_lane ON messages (agent, available_at) WHERE status = 'pending' AND available_at > 0;
CREATE INDEX backing_off ON messages (agent, thread) WHERE status = 'pending' AND retry_count > 0 AND available_at > 0;
-- Only messages of chats share a run with others of their thread.
CREATE INDEX pending_chats ON messages (agent, thread, id)
  WHERE status = 'pending'
    AND (channel = 'discord' OR channel = 'telegram' OR channel = 'whatsapp' OR channel = 'web');
CREATE INDEX finished_by_age ON messages (status, updated_at) WHERE status = 'completed' OR status = 'dead';
CREATE INDEX unadopted_messages ON messages (id) WHERE thread IS NULL;
-- A conversation is named after its root, which is found by its message_id: only what descends from it is indexed.
CREATE INDEX descendants ON messages (conversation_id) WHERE conversation_id <> message_id;

-- A claim is held on the lane's row: two claims in one lane cannot exist. The row also lists the messages of the run
-- (`claim_ids`, a JSON array), so that finding them needs no index that every run would have to write.
CREATE TABLE lanes (
  agent       TEXT PRIMARY KEY,
  paused      INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  hold_until  INTEGER NOT NULL DEFAULT 0,
  hold_reason TEXT,
  holds       INTEGER NOT NULL DEFAULT 0,
  claim_id    TEXT,
  claim_ids   TEXT,
  owner       TEXT,
  lease_until INTEGER,
  CHECK ((claim_id IS NULL) = (owner IS NULL) AND (claim_id IS NULL) = (lease_until IS NULL))
) WITHOUT ROWID;

CREATE TABLE conversations (
  id         TEXT PRIMARY KEY,
  team       TEXT,
  open       INTEGER NOT NULL CHECK (open >= 0),
  total      INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX open_conversations ON conversations (id) WHERE open > 0;

CREATE TABLE responses (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id       TEXT NOT NULL,
  channel          TEXT NOT NULL,
  sender           TEXT NOT NULL,
  sender_id        TEXT,
  message          TEXT NOT NULL,
  original_message TEXT NOT NULL,
  agent            TEXT,
  files            TEXT,
  metadata         TEXT,
  status           TEXT NOT NULL DEFAULT 'pending'
                   CHECK (status = 'pending' OR status = 'acked' OR status = 'failed'),
  conversation_id  TEXT,
  seq              INTEGER NOT NULL DEFAULT 0,
  attempts         INTEGER NOT NULL DEFAULT 0,
  last_error       TEXT,
  available_at     INTEGER NOT NULL DEFAULT 0,
  created_at       INTEGER NOT NULL,
  acked_at         INTEGER,
  last_event_id    INTEGER,
  UNIQUE (message_id, agent, seq)
);

CREATE INDEX pending_by_channel ON responses (channel, id) WHERE status = 'pending';
CREATE INDEX delivery_backing_off ON responses (channel, sender_id, sender, id) WHERE status = 'pending' AND attempts > 0;
CREATE INDEX acked_by_age ON responses (acked_at) WHERE status = 'acked';
CREATE INDEX unadopted_responses ON responses (id) WHERE last_event_id IS NULL;

CREATE TABLE chat_messages (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  team_id       TEXT NOT NULL,
  from_agent    TEXT NOT NULL,
  message       TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  last_event_id INTEGER
);

CREATE INDEX room_by_team ON chat_messages (team_id, id);
CREATE INDEX unadopted_chat_messages ON chat_messages (id) WHERE last_event_id IS NULL;

CREATE TABLE agent_messages (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  agent_id      TEXT NOT NULL,
  role          TEXT NOT NULL CHECK (role = 'user' OR role = 'assistant'),
  channel       TEXT NOT NULL,
  sender        TEXT NOT NULL,
  message_id    TEXT NOT NULL,
  content       TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  last_event_id INTEGER
);

-- An agent's lines in order. Kept by hand and in batches: as an index it would cost a page of the log for every line,
-- because every agent's lines end on a page of their own. Lines beyond `through` are not in it yet.
CREATE TABLE history_index (
  agent_id TEXT NOT NULL,
  id       INTEGER NOT NULL,
  PRIMARY KEY (agent_id, id)
) WITHOUT ROWID;

CREATE TABLE history_indexed (through INTEGER NOT NULL);
INSERT INTO history_indexed VALUES (0);

CREATE INDEX unadopted_agent_messages ON agent_messages (id) WHERE last_event_id IS NULL;

CREATE TABLE events (
  id                      INTEGER PRIMARY KEY AUTOINCREMENT,
  type                    TEXT NOT NULL,
  version                 INTEGER NOT NULL,
  message_id              TEXT,
  conversation_id         TEXT,
  conversation_started_at INTEGER,
  agent                   TEXT,
  payload                 TEXT NOT NULL,
  created_at              INTEGER NOT NULL
);

CREATE TABLE cursors (
  consumer   TEXT PRIMARY KEY,
  position   INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Queue depth in O(1). Triggers keep the counts, so they are right whoever writes the rows. One row per lane, not one
-- per status: an update then touches one key. No constraints: with one, SQLite keeps a journal per statement for the
-- case that it fails inside the trigger.
CREATE TABLE lane_counters (
  lane       TEXT PRIMARY KEY,
  pending    INTEGER DEFAULT 0,
  processing INTEGER DEFAULT 0,
  completed  INTEGER DEFAULT 0,
  dead       INTEGER DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE channel_counters (
  channel TEXT PRIMARY KEY,
  pending INTEGER DEFAULT 0,
  acked   INTEGER DEFAULT 0,
  failed  INTEGER DEFAULT 0
) WITHOUT ROWID;

CREATE TRIGGER count_message_in AFTER INSERT ON messages BEGIN
  INSERT INTO lane_counters (lane, pending, processing, completed, dead)
  VALUES (ifnull(new.agent, ''), new.status = 'pending', new.status = 'processing', new.status = 'completed',
          new.status = 'dead')
  ON CONFLICT (lane) DO UPDATE SET
    pending = pending + excluded.pending, processing = processing + excluded.processing,
    completed = completed + excluded.completed, dead = dead + excluded.dead;
END;

CREATE TRIGGER count_message_status AFTER UPDATE OF status ON messages
WHEN old.status <> new.status AND old.agent IS new.agent BEGIN
  UPDATE lane_counters SET
    pending = pending + (new.status = 'pending') - (old.status = 'pending'),
    processing = processing + (new.status = 'processing') - (old.status = 'processing'),
    completed = completed + (new.status = 'completed') - (old.status = 'completed'),
    dead = dead + (new.status = 'dead') - (old.status = 'dead')
  WHERE lane = ifnull(new.agent, '');
END;

CREATE TRIGGER count_message_lane AFTER UPDATE OF agent ON messages WHEN old.agent IS NOT new.agent BEGIN
  UPDATE lane_counters SET
    pending = pending - (old.status = 'pending'), processing = processing - (old.status = 'processing'),
    completed = completed - (old.status = 'completed'), dead = dead - (old.status = 'dead')
  WHERE lane = ifnull(old.agent, '');
  INSERT INTO lane_counters (lane, pending, processing, completed, dead)
  VALUES (ifnull(new.agent, ''), new.status = 'pending', new.status = 'processing', new.status = 'completed',
          new.status = 'dead')
  ON CONFLICT (lane) DO UPDATE SET
    pending = pending + excluded.pending, processing = processing + excluded.processing,
    completed = completed + excluded.completed, dead = dead + excluded.dead;
END;

CREATE TRIGGER count_message_out AFTER DELETE ON messages BEGIN
  UPDATE lane_counters SET
    pending = pending - (old.status = 'pending'), processing = processing - (old.status = 'processing'),
    completed = completed - (old.status = 'completed'), dead = dead - (old.status = 'dead')
  WHERE lane = ifnull(old.agent, '');
END;

CREATE TRIGGER count_response_in AFTER INSERT ON responses BEGIN
  INSERT INTO channel_counters (channel, pending, acked, failed)
  VALUES (new.channel, new.status = 'pending', new.status = 'acked', new.status = 'failed')
  ON CONFLICT (channel) DO UPDATE SET
    pending = pending + excluded.pending, acked = acked + excluded.acked, failed = failed + excluded.failed;
END;

CREATE TRIGGER count_response_status AFTER UPDATE OF status ON responses WHEN old.status <> new.status BEGIN
  UPDATE channel_counters SET
    pending = pending + (new.status = 'pending') - (old.status = 'pending'),
    acked = acked + (new.status = 'acked') - (old.status = 'acked'),
    failed = failed + (new.status = 'failed') - (old.status = 'failed')
  WHERE channel = new.channel;
END;

CREATE TRIGGER count_response_out AFTER DELETE ON responses BEGIN
  UPDATE channel_counters SET
    pending = pending - (old.status = 'pending'), acked = acked - (old.status = 'acked'),
    failed = failed - (old.status = 'failed')
  WHERE channel = old.channel;
END;

-- Rows as the domain knows them; `Message` and `Response` have these columns in this order.
CREATE VIEW message_rows AS
SELECT m.id, m.message_id, m.channel, m.sender, m.sender_id, m.message, m.agent, m.from_agent, m.files,
       m.conversation_id, c.created_at AS conversation_started_at, c.team AS conversation_team, m.parent_message_id,
       m.hop, m.team, m.thread, m.priority, m.status, m.retry_count, m.last_error, m.available_at, m.claim_id,
       m.started_at, m.answered_by, m.created_at, m.updated_at, m.last_event_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id;

CREATE VIEW response_rows AS
SELECT id, message_id, channel, sender, sender_id, message, original_message, agent, files, metadata, status,
       conversation_id, seq, attempts, last_error, available_at, created_at, acked_at, last_event_id
FROM responses;
