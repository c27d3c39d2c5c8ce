"""The REST calls of the API, one class per noun; `channel_calls` has those of channels."""

from collections.abc import Mapping
from typing import Literal

from tinyagi.api.agents import (
    AgentDeleted,
    AgentFields,
    AgentHeartbeat,
    AgentMemory,
    AgentSaved,
    HeartbeatSaved,
    NewHeartbeat,
    NewSystemPrompt,
    Skill,
    SystemPrompt,
    SystemPromptSaved,
)
from tinyagi.api.analytics import AnalyticsRows, AnalyticsTable
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
from tinyagi.api.channels import (
    ChannelState,
)
from tinyagi.api.conversations import Conversation, HistoryLine, Recalled, Trace
from tinyagi.api.daemon import Applied, Restarting
from tinyagi.api.queue import (
    CancelledMessage,
    DeadMessage,
    LaneCancelled,
    LaneStatus,
    MovedMessage,
    MoveMessage,
    QueueStatus,
    RetryDead,
    RunKilled,
    RunningMessage,
    WaitingMessage,
)
from tinyagi.api.schedules import Schedule, ScheduleSaved
from tinyagi.api.settings import ProviderFields, ProviderSaved, SettingsObject, SettingsSaved
from tinyagi.api.teams import ChatFile, LinePosted, PostLine, RoomLine, TeamFields, TeamSaved
from tinyagi.client.transport import Transport, segment

ChannelAction = Literal["start", "stop", "restart"]


class Calls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class AgentCalls(Calls):
    async def all(self) -> dict[str, AgentFields]:
        return await self._transport.get("/api/agents", dict[str, AgentFields])

    async def put(self, agent: str, fields: AgentFields) -> AgentSaved:
        """Add an agent, or change the given fields of an existing one."""
        return await self._transport.put(_agent_path(agent), AgentSaved, fields)

    async def delete(self, agent: str, *, messages: str | None = None) -> AgentDeleted:
        """Delete an agent; `messages` says what happens to its waiting messages: `dead` or `move:<agent>`."""
        return await self._transport.delete(_agent_path(agent), AgentDeleted, messages=messages)

    async def reset(self, agent: str) -> None:
        """Forget the agent's stored sessions: its next run starts a new one."""
        await self._transport.post(_agent_path(agent, "reset"), Ok)

    async def messages(
        self,
        agent: str,
        *,
        limit: int | None = None,
        since_id: int | None = None,
        before_id: int | None = None,
        internal: bool = False,
    ) -> list[HistoryLine]:
        """List the agent's history, newest first; `internal` adds messages from teammates and chat rooms."""
        return await self._transport.get(
            _agent_path(agent, "messages"),
            list[HistoryLine],
            limit=limit,
            since_id=since_id,
            before_id=before_id,
            internal="true" if internal else None,
        )

    async def messages_of_all(
        self,
        *,
        limit: int | None = None,
        since_id: int | None = None,
        before_id: int | None = None,
        internal: bool = False,
    ) -> list[HistoryLine]:
        return await self._transport.get(
            "/api/agent-messages",
            list[HistoryLine],
            limit=limit,
            since_id=since_id,
            before_id=before_id,
            internal="true" if internal else None,
        )

    async def recall(self, agent: str, words: str, *, limit: int | None = None) -> Recalled:
        """Search the agent's archived messages and answers by words, best match first."""
        return await self._transport.get("/api/recall", Recalled, agent=agent, q=words, limit=limit)

    async def skills(self, agent: str) -> list[Skill]:
        return await self._transport.get(_agent_path(agent, "skills"), list[Skill])

    async def memory(self, agent: str) -> AgentMemory:
        return await self._transport.get(_agent_path(agent, "memory"), AgentMemory)

    async def system_prompt(self, agent: str) -> SystemPrompt:
        return await self._transport.get(_agent_path(agent, "system-prompt"), SystemPrompt)

    async def put_system_prompt(self, agent: str, content: str) -> SystemPromptSaved:
        body = NewSystemPrompt(content=content)
        return await self._transport.put(_agent_path(agent, "system-prompt"), SystemPromptSaved, body)

    async def heartbeat(self, agent: str) -> AgentHeartbeat:
        return await self._transport.get(_agent_path(agent, "heartbeat"), AgentHeartbeat)

    async def put_heartbeat(self, agent: str, heartbeat: NewHeartbeat) -> HeartbeatSaved:
        return await self._transport.put(_agent_path(agent, "heartbeat"), HeartbeatSaved, heartbeat)


def _agent_path(agent: str, *steps: str) -> str:
    return "/".join(("/api/agents", segment(agent), *steps))


class AnalyticsCalls(Calls):
    async def tables(self) -> list[AnalyticsTable]:
        """List the tables that the pipeline computed."""
        return await self._transport.get("/api/analytics", list[AnalyticsTable])

    async def rows(
        self,
        table: str,
        *,
        since: str | int | None = None,
        until: str | int | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> AnalyticsRows:
        """Read a table, newest rows first; days are ISO dates or any instant of the day in ms."""
        return await self._transport.get(
            f"/api/analytics/{segment(table)}", AnalyticsRows, since=since, until=until, agent=agent, limit=limit
        )


class BoardCalls(Calls):
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


class ConversationCalls(Calls):
    async def recent(self, *, limit: int | None = None) -> list[Conversation]:
        """List recent conversations, newest first."""
        return await self._transport.get("/api/conversations", list[Conversation], limit=limit)

    async def trace(self, conversation: str) -> Trace:
        """Read the conversation's messages as a tree, with their runs."""
        return await self._transport.get(f"/api/traces/{segment(conversation)}", Trace)


class QueueCalls(Calls):
    async def status(self) -> QueueStatus:
        return await self._transport.get("/api/queue/status", QueueStatus)

    async def lanes(self) -> list[LaneStatus]:
        return await self._transport.get("/api/queue/agents", list[LaneStatus])

    async def processing(self, *, limit: int | None = None) -> list[RunningMessage]:
        """List running messages, then waiting ones (status `queued`)."""
        return await self._transport.get("/api/queue/processing", list[RunningMessage], limit=limit)

    async def waiting(
        self, *, agent: str | None = None, after: int | None = None, limit: int | None = None
    ) -> list[WaitingMessage]:
        """List waiting messages, oldest first; `after` is the last id of the previous page."""
        path = "/api/queue/messages"
        return await self._transport.get(path, list[WaitingMessage], agent=agent, after=after, limit=limit)

    async def cancel(self, message: int | str) -> CancelledMessage:
        """Cancel a waiting message by its row id or message id; it becomes dead and can be retried."""
        return await self._transport.delete(f"/api/queue/messages/{segment(message)}", CancelledMessage)

    async def cancel_all(self, agent: str) -> int:
        """Cancel all waiting messages of an agent; return their number."""
        return (await self._transport.delete("/api/queue/messages", LaneCancelled, agent=agent)).cancelled

    async def move(self, message: int | str, to: str) -> MovedMessage:
        """Move a waiting message to another agent."""
        path = f"/api/queue/messages/{segment(message)}/move"
        return await self._transport.post(path, MovedMessage, MoveMessage(to=to))

    async def kill(self, message: int) -> RunKilled:
        """Stop the run of a message; all messages of the run become dead."""
        return await self._transport.post(f"/api/queue/processing/{segment(message)}/kill", RunKilled)

    async def pause(self, agent: str) -> None:
        await self._transport.post(f"/api/queue/agents/{segment(agent)}/pause", Ok)

    async def resume(self, agent: str) -> None:
        """End the lane's pause and hold."""
        await self._transport.post(f"/api/queue/agents/{segment(agent)}/resume", Ok)

    async def dead(self, *, agent: str | None = None, limit: int | None = None) -> list[DeadMessage]:
        return await self._transport.get("/api/queue/dead", list[DeadMessage], agent=agent, limit=limit)

    async def retry(self, message: int, text: str | None = None) -> None:
        """Retry a dead message, optionally with a new text."""
        body = RetryDead() if text is None else RetryDead(message=text)
        await self._transport.post(f"/api/queue/dead/{segment(message)}/retry", Ok, body)

    async def delete(self, message: int) -> None:
        await self._transport.delete(f"/api/queue/dead/{segment(message)}", Ok)


class ScheduleCalls(Calls):
    async def all(self) -> list[Schedule]:
        return await self._transport.get("/api/schedules", list[Schedule])

    async def add(self, schedule: Mapping[str, object]) -> Schedule:
        """Add a schedule with the JSON fields of `tinyagi.api.schedules.NewSchedule`: the server checks dates."""
        return (await self._transport.post("/api/schedules", ScheduleSaved, schedule)).schedule

    async def change(self, schedule: str, changes: Mapping[str, object]) -> Schedule:
        """Change a schedule with the JSON fields of `tinyagi.api.schedules.ScheduleChanges`."""
        return (await self._transport.put(f"/api/schedules/{segment(schedule)}", ScheduleSaved, changes)).schedule

    async def delete(self, schedule: str) -> None:
        await self._transport.delete(f"/api/schedules/{segment(schedule)}", Ok)


class DaemonCalls(Calls):
    async def restart(self) -> Restarting:
        """Restart the daemon after its current runs."""
        return await self._transport.post("/api/services/restart", Restarting)

    async def apply(self) -> Applied:
        """Restart the daemon only if changed settings need it."""
        return await self._transport.post("/api/services/apply", Applied)

    async def channel(self, channel: str, action: ChannelAction) -> ChannelState:
        return await self._transport.post(f"/api/services/channel/{segment(channel)}/{action}", ChannelState)


class SettingsCalls(Calls):
    async def read(self) -> SettingsObject:
        return await self._transport.get("/api/settings", SettingsObject)

    async def update(self, patch: Mapping[str, object]) -> SettingsSaved:
        """Merge a patch into the stored settings; null removes."""
        return await self._transport.put("/api/settings", SettingsSaved, patch)

    async def set_up(self, settings: Mapping[str, object]) -> SettingsSaved:
        """Merge first settings into the stored ones; null is ignored."""
        return await self._transport.post("/api/setup", SettingsSaved, settings)


class ProviderCalls(Calls):
    async def all(self) -> dict[str, ProviderFields]:
        return await self._transport.get("/api/custom-providers", dict[str, ProviderFields])

    async def put(self, provider: str, fields: ProviderFields) -> ProviderSaved:
        """Add a provider, or change the given fields of an existing one."""
        return await self._transport.put(f"/api/custom-providers/{segment(provider)}", ProviderSaved, fields)

    async def delete(self, provider: str) -> None:
        await self._transport.delete(f"/api/custom-providers/{segment(provider)}", Ok)


class TeamCalls(Calls):
    async def all(self) -> dict[str, TeamFields]:
        return await self._transport.get("/api/teams", dict[str, TeamFields])

    async def put(self, team: str, fields: TeamFields) -> TeamSaved:
        """Add a team, or change the given fields of an existing one."""
        return await self._transport.put(f"/api/teams/{segment(team)}", TeamSaved, fields)

    async def delete(self, team: str) -> None:
        await self._transport.delete(f"/api/teams/{segment(team)}", Ok)

    async def room(
        self, team: str, *, limit: int | None = None, since: int | None = None, before: int | None = None
    ) -> list[RoomLine]:
        """List the posts in the team's chat room, newest first; `since` and `before` are ids of posts."""
        return await self._transport.get(
            f"/api/chatroom/{segment(team)}", list[RoomLine], limit=limit, since=since, before=before
        )

    async def post(self, team: str, line: PostLine) -> LinePosted:
        """Post to the team's chat room."""
        return await self._transport.post(f"/api/chatroom/{segment(team)}", LinePosted, line)

    async def chats(self) -> list[ChatFile]:
        """List the files of all teams' conversations."""
        return await self._transport.get("/api/chats", list[ChatFile])
