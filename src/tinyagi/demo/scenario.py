"""Scripted companies that need no model: the demo's company with its messages, and a sample team for first steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tinyagi.agents.workspace import prepare
from tinyagi.agents.workspace_files import create_text
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import Agent
from tinyagi.providers.scripted import FILE_NAME
from tinyagi.settings.agent_setup import agent_setup
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings

DEMO_TEAM: Final = "dev"
DEMO_SETTINGS: Final[Mapping[str, Any]] = {
    "agents": {
        name: {"name": name.title(), "provider": "scripted"}
        for name in ("manager", "coder", "reviewer", "writer", "tester")
    },
    "teams": {
        DEMO_TEAM: {
            "name": "Dev",
            "agents": ["manager", "coder", "reviewer", "writer", "tester"],
            "leader_agent": "manager",
        }
    },
    # Fractions of a second instead of minutes, so that retries happen during the demo.
    "queue": {"attempts": 3, "retry_base_seconds": 0.2, "retry_factor": 2, "recover_seconds": 1},
    # No heartbeat messages, and a free port for the daemon.
    "monitoring": {"heartbeat_interval": 0},
    "server": {"port": 0},
    # One small run; its home may be deleted while a class archive is made.
    "pipeline": {"class_archive": False},
}
# An agent answers with the first reply whose `when` occurs in the prompt; see docs/howto/script-an-agent.md.
DEMO_SCRIPTS: Final[Mapping[str, str]] = {
    "manager": """
[[reply]]
when = "login page"
seconds = 0.4
steps = ["Planning the login page. "]
say = "On it. [#dev: We ship the login page tonight.] [@coder: build the login form] [@writer: write the help text]"
input_tokens = 900
output_tokens = 120

[[reply]]
when = "all tests pass"
seconds = 0.3
say = "The login page is shipped: built, reviewed, tested and documented."
input_tokens = 1500
output_tokens = 40

[[reply]]
when = "teammate"
seconds = 0.1
say = "Noted, thank you."

[[reply]]
say = "Read."
""",
    "coder": """
[[reply]]
when = "build the login form"
seconds = 1.5
steps = ["Reading the code. ", "Writing the form. ", "Trying it in a browser. "]
say = "The form works. [@reviewer: please review the login form]"
input_tokens = 5200
output_tokens = 900

[[reply]]
when = "name the field"
seconds = 0.5
say = "Renamed. [@reviewer: the field is called email now, please look again]"
input_tokens = 2100
output_tokens = 200

[[reply]]
when = "tag the release"
seconds = 0.3
say = "Tagged v2.0."
input_tokens = 300
output_tokens = 20

[[reply]]
say = "Read."
""",
    "reviewer": """
[[reply]]
when = "look again"
seconds = 0.4
say = "Approved. [@tester: run the tests of the login page]"
input_tokens = 1900
output_tokens = 60

[[reply]]
when = "please review"
seconds = 0.5
say = "One thing: [@coder: name the field email, not mail]"
input_tokens = 2400
output_tokens = 80

[[reply]]
say = "Read."
""",
    "writer": """
[[reply]]
when = "help text"
seconds = 0.6
say = "The help text is written. [@manager: the help text is ready]"
input_tokens = 800
output_tokens = 400

[[reply]]
when = "announcement"
seconds = 0.4
say = "Version 2.0 is here: faster, calmer, with a login page."
input_tokens = 600
output_tokens = 150

[[reply]]
say = "Read."
""",
    "tester": """
[[reply]]
when = "old server"
seconds = 0.1
fail = "ssh: connect to host old-server port 22: Connection refused"

[[reply]]
when = "tests of the login page"
attempts = [1]
seconds = 0.2
fail = "1 of 12 tests failed: the browser did not start"

[[reply]]
when = "tests of the login page"
seconds = 0.4
say = "12 of 12. [@manager: all tests pass]"
input_tokens = 700
output_tokens = 50

[[reply]]
say = "Read."
""",
}
SAMPLE_TEAM: Final = "crew"
# The keys are explained in docs/howto/script-an-agent.md.
SAMPLE_SCRIPTS: Final[Mapping[str, str]] = {
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
SAMPLE_MEMBERS: Final = tuple(SAMPLE_SCRIPTS)


@dataclass(frozen=True, slots=True)
class DemoMessage:
    """A message from a person, and its channel."""

    sender: str
    channel: str
    text: str


DEMO_MESSAGES: Final = (
    DemoMessage("Ada", "telegram", "@dev Ship the login page by tonight."),
    DemoMessage(
        "Grace", "discord", "We release 2.0 today. [@coder: tag the release] [@writer: write the announcement]"
    ),
    DemoMessage("Linus", "web", "@tester Run the suite on the old server."),
)


def write_sample_scripts(settings: Settings, home: Home) -> None:
    """Put each member's script into its workspace; keep an existing one. Raise WorkspaceError."""
    for member, script in SAMPLE_SCRIPTS.items():
        setup = agent_setup(settings, AgentId(member), home)
        prepare(setup.workspace, Agent(setup.id, setup.name))
        create_text(setup.workspace / FILE_NAME, script)
