-- The board: projects, tasks and comments.

-- name: projects
-- Oldest first; rows of the same millisecond in insertion order.
SELECT id, name, description, prefix, color, status, created_at, updated_at FROM projects ORDER BY created_at, rowid;

-- name: project
SELECT id, name, description, prefix, color, status, created_at, updated_at FROM projects WHERE id = ?;

-- name: prefix_in_use
-- By a project other than ?2.
SELECT 1 FROM projects WHERE prefix = ?1 AND id <> ?2;

-- name: insert_project
INSERT INTO projects (id, name, description, prefix, color, status, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_project
UPDATE projects SET name = ?2, description = ?3, prefix = ?4, color = ?5, status = ?6, updated_at = ?7 WHERE id = ?1;

-- name: delete_project
DELETE FROM projects WHERE id = ?;

-- name: tasks
-- Columns from left to right, each from top to bottom.
SELECT id, number, identifier, title, description, status, assignee, assignee_type, project_id, position, created_at,
       updated_at, (SELECT count(*) FROM comments WHERE task_id = tasks.id)
FROM tasks
WHERE (:project IS NULL OR project_id = :project) AND (:status IS NULL OR status = :status)
ORDER BY CASE status WHEN 'backlog' THEN 1 WHEN 'todo' THEN 2 WHEN 'in_progress' THEN 3 WHEN 'review' THEN 4 ELSE 5 END,
  position, rowid;

-- name: task
SELECT id, number, identifier, title, description, status, assignee, assignee_type, project_id, position, created_at,
       updated_at, (SELECT count(*) FROM comments WHERE task_id = tasks.id)
FROM tasks WHERE id = ?;

-- name: next_task_number
INSERT INTO task_numbers (prefix, last) VALUES (?, 1) ON CONFLICT (prefix) DO UPDATE SET last = last + 1
RETURNING last;

-- name: raise_task_number
-- For numbers that come from another board.
INSERT INTO task_numbers (prefix, last) VALUES (?, ?) ON CONFLICT (prefix) DO UPDATE SET last = max(last, excluded.last);

-- name: identifier_in_use
SELECT 1 FROM tasks WHERE identifier = ?;

-- name: end_of_column
SELECT ifnull(max(position), 0) + 1 FROM tasks WHERE status = ?;

-- name: insert_task
INSERT INTO tasks (id, number, identifier, title, description, status, assignee, assignee_type, project_id, position,
  created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_task
-- Number and identifier never change.
UPDATE tasks SET title = ?2, description = ?3, status = ?4, assignee = ?5, assignee_type = ?6, project_id = ?7,
  position = ?8, updated_at = ?9
WHERE id = ?1;

-- name: place_task
-- A move within the column does not count as a change of the task.
UPDATE tasks SET status = ?2, position = ?3, updated_at = CASE WHEN status = ?2 THEN updated_at ELSE ?4 END
WHERE id = ?1;

-- name: delete_task
DELETE FROM tasks WHERE id = ?;

-- name: task_text
SELECT title, description FROM tasks WHERE id = ?;

-- name: take_dispatch
DELETE FROM task_dispatches WHERE task_id = ? AND agent = ? AND by_board = ? AND created_at > ? RETURNING message;

-- name: record_dispatch
-- A person's message about a task that is already in progress is not a dispatch: no move follows it.
INSERT INTO task_dispatches (task_id, message, agent, by_board, created_at)
SELECT id, ?2, ?3, ?4, ?5 FROM tasks WHERE id = ?1 AND (?4 = 1 OR status <> 'in_progress')
ON CONFLICT (task_id) DO UPDATE
SET message = excluded.message, agent = excluded.agent, by_board = excluded.by_board, created_at = excluded.created_at;

-- name: comments
SELECT id, task_id, author, author_type, content, created_at FROM comments
WHERE task_id = ? ORDER BY created_at, rowid;

-- name: comment
SELECT id, task_id, author, author_type, content, created_at FROM comments WHERE id = ?;

-- name: insert_comment
INSERT INTO comments (id, task_id, author, author_type, content, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: delete_comment
DELETE FROM comments WHERE id = ?;
