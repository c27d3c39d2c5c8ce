"""The board over REST: projects, tasks and comments."""

from tinyagi.api.base import Ok
from tinyagi.api.board import (
    Comment,
    CommentSaved,
    NewComment,
    NewProject,
    NewTask,
    Project,
    ProjectChanges,
    ProjectSaved,
    Reorder,
    Reordered,
    Task,
    TaskChanges,
    TaskSaved,
)
from tinyagi.client.transport import Transport, segment


class Board:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def projects(self) -> list[Project]:
        return await self._transport.get("/api/projects", list[Project])

    async def project(self, project: str) -> Project:
        return await self._transport.get(f"/api/projects/{segment(project)}", Project)

    async def add_project(self, project: NewProject) -> Project:
        return (await self._transport.post("/api/projects", ProjectSaved, project)).project

    async def change_project(self, project: str, changes: ProjectChanges) -> Project:
        return (await self._transport.put(f"/api/projects/{segment(project)}", ProjectSaved, changes)).project

    async def delete_project(self, project: str) -> None:
        await self._transport.delete(f"/api/projects/{segment(project)}", Ok)

    async def tasks(self, *, project: str | None = None, status: str | None = None) -> list[Task]:
        return await self._transport.get("/api/tasks", list[Task], projectId=project, status=status)

    async def task(self, task: str) -> Task:
        return await self._transport.get(f"/api/tasks/{segment(task)}", Task)

    async def add_task(self, task: NewTask) -> Task:
        return (await self._transport.post("/api/tasks", TaskSaved, task)).task

    async def change_task(self, task: str, changes: TaskChanges) -> Task:
        """Moving an assigned task to `in_progress` sends it to its assignee."""
        return (await self._transport.put(f"/api/tasks/{segment(task)}", TaskSaved, changes)).task

    async def reorder(self, order: Reorder) -> tuple[Task, ...]:
        return (await self._transport.put("/api/tasks/reorder", Reordered, order)).tasks

    async def delete_task(self, task: str) -> None:
        await self._transport.delete(f"/api/tasks/{segment(task)}", Ok)

    async def comments(self, task: str) -> list[Comment]:
        return await self._transport.get(f"/api/tasks/{segment(task)}/comments", list[Comment])

    async def add_comment(self, task: str, comment: NewComment) -> Comment:
        return (await self._transport.post(f"/api/tasks/{segment(task)}/comments", CommentSaved, comment)).comment

    async def delete_comment(self, comment: str) -> None:
        await self._transport.delete(f"/api/comments/{segment(comment)}", Ok)
