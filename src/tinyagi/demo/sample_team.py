"""A small scripted team that works without a model, for first steps with TinyAGI."""

from collections.abc import Mapping
from typing import Final

from tinyagi.agents.workspace import prepare
from tinyagi.agents.workspace_files import create_text
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import Agent
from tinyagi.providers.scripted import FILE_NAME
from tinyagi.settings.agent_setup import agent_setup
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings

TEAM: Final = "crew"

# The keys are explained in docs/howto/script-an-agent.md.
SCRIPTS: Final[Mapping[str, str]] = {
    "lead": """\
# @lead plans and hands the work on. Edit this file: it is read for every message.
[[reply]]
steps = ["Planning. "]
seconds = 0.3
say = "Here is the plan: @maker makes it, @checker checks it. [@maker: {message}]"
""",
    "maker": """\
# @maker does the work and hands it to @checker.
[[reply]]
steps = ["Gathering material. ", "Putting it together. "]
seconds = 0.6
say = "It is made. [@checker: {message}]"
""",
    "checker": """\
# @checker says whether it is good.
[[reply]]
steps = ["Trying it out. "]
seconds = 0.3
say = "I checked “{message}”: it works. Nothing left to do."
""",
}
MEMBERS: Final = tuple(SCRIPTS)


def write_scripts(settings: Settings, home: Home) -> None:
    """Put each member's script into its workspace; keep an existing one. Raise WorkspaceError."""
    for member, script in SCRIPTS.items():
        setup = agent_setup(settings, AgentId(member), home)
        prepare(setup.workspace, Agent(setup.id, setup.name))
        create_text(setup.workspace / FILE_NAME, script)
