-- The board: projects, tasks and comments.

-- Prefixes that differ in case only would give identifiers that people cannot tell apart.
CREATE TABLE projects (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  description TEXT NOT NULL,
  prefix      TEXT NOT NULL UNIQUE COLLATE NOCASE,
  color       TEXT,
  status      TEXT NOT NULL CHECK (status = 'active' OR status = 'archived'),
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
);

-- An identifier says the prefix that the task was numbered under, so it stays when the task or the prefix changes.
CREATE TABLE tasks (
  id            TEXT PRIMARY KEY,
  number        INTEGER NOT NULL,
  identifier    TEXT NOT NULL UNIQUE COLLATE NOCASE,
  title         TEXT NOT NULL,
  description   TEXT NOT NULL,
  status        TEXT NOT NULL CHECK (status = 'backlog' OR status = 'todo' OR status = 'in_progress'
                                     OR status = 'review' OR status = 'done'),
  assignee      TEXT,
  assignee_type TEXT CHECK (assignee_type = 'agent' OR assignee_type = 'team'),
  project_id    TEXT REFERENCES projects (id) ON DELETE SET NULL,
  position      INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
);

CREATE INDEX tasks_by_column ON tasks (status, position);
CREATE INDEX tasks_by_project ON tasks (project_id) WHERE project_id IS NOT NULL;

-- The last number given under each prefix. It outlives tasks and projects: no identifier ever names two tasks.
CREATE TABLE task_numbers (
  prefix TEXT PRIMARY KEY COLLATE NOCASE,
  last   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE comments (
  id          TEXT PRIMARY KEY,
  task_id     TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
  author      TEXT NOT NULL,
  author_type TEXT NOT NULL CHECK (author_type = 'user' OR author_type = 'agent'),
  content     TEXT NOT NULL,
  created_at  INTEGER NOT NULL
);

CREATE INDEX comments_by_task ON comments (task_id);
