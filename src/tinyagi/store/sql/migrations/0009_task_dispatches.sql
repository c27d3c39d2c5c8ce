-- The last dispatch of a task whose counterpart has not come: the board sent a message (by_board = 1) and the client may
-- send one too, or the client sent one and the task may move into progress. The counterpart takes the row.
CREATE TABLE task_dispatches (
  task_id    TEXT PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE,
  message    INTEGER NOT NULL,
  agent      TEXT NOT NULL,
  by_board   INTEGER NOT NULL CHECK (by_board = 0 OR by_board = 1),
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
