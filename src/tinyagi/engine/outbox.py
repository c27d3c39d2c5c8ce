"""What agents and tools tell people on their own account: shaped like an answer, confined like one."""

from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId, ConversationId, MessageId
from tinyagi.domain.responses import NewResponse, Response
from tinyagi.engine.answers import Shaping
from tinyagi.engine.attachments import confined
from tinyagi.engine.rules import Rulebook, Rules
from tinyagi.plugins.host import Plugins
from tinyagi.plugins.specs import HookContext
from tinyagi.settings.home import Home
from tinyagi.store.base import Responses


class Outbox:
    """The way out for messages that answer nothing."""

    def __init__(self, responses: Responses, rulebook: Rulebook, home: Home, plugins: Plugins) -> None:
        self._responses = responses
        self._rulebook = rulebook
        self._files = home.files
        self._plugins = plugins

    async def send(self, new: NewResponse) -> Response:
        """Store a proactive message for its channel to fetch; raise InvalidInput for a file that may not be sent."""
        if not new.message.strip() and not new.files:
            raise InvalidInput("A message needs a text or a file.")
        rules = self._rulebook.current
        folders = self._folders(new.agent, rules)
        given = tuple(confined(file, [*folders, self._files]) for file in new.files)
        if new.agent is None:
            # Nobody's text: there is nobody to sign it and no workspace that its tags could mean.
            return await self._responses.send(replace(new, files=given))
        shaped = await Shaping(self._files, rules.style, self._plugins).shape(
            new.message, folders=folders, context=_context(new, new.agent), name=f"{new.agent}_{token_hex(6)}"
        )
        files = tuple(dict.fromkeys((*given, *shaped.files)))
        metadata = {**new.metadata, **shaped.metadata}
        return await self._responses.send(replace(new, message=shaped.text, files=files, metadata=metadata))

    def _folders(self, agent: AgentId | None, rules: Rules) -> list[Path]:
        if agent is None:
            return []
        if agent not in rules.roster.agents:
            raise InvalidInput(f"There is no agent {agent!r}.")
        return [rules.setup_of(agent).workspace]


def _context(new: NewResponse, agent: AgentId) -> HookContext:
    nothing = MessageId("")
    return HookContext(
        agent=agent,
        channel=new.channel,
        sender=new.sender,
        sender_id=new.sender_id,
        message_id=nothing,
        conversation_id=ConversationId(nothing),
    )
