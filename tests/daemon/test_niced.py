"""The pipeline's process, for real: niced, heard, and gone when it is over, whatever it is."""

import asyncio
import json
import logging
import os
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.programs import SLEEP, is_alive
from tinyagi.daemon.pipeline_process import COMMAND, PipelineProcess
from tinyagi.engine.pipeline_trigger import PipelineExit
from tinyagi.settings.home import Home
from tinyagi.settings.model import PipelineSettings

SETTINGS = PipelineSettings(nice=7)
HEAD = "import json, os, signal, subprocess, sys, time\n"
CHILD = f"[sys.executable, '-IS', '-c', {SLEEP!r}]"
# As Spark's workers do: out of the group, and still in the session.
WORKER = f"child = subprocess.Popen({CHILD}, preexec_fn=lambda: os.setpgid(0, 0)); print(child.pid, flush=True)\n"
WITHOUT_MANNERS = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"

Niced = Callable[..., PipelineProcess]


class Heard(logging.Handler):
    """What the pipeline said, as it says it."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.put(record.getMessage())

    async def line(self) -> str:
        return await asyncio.to_thread(self._lines.get, timeout=30)

    async def number(self) -> int:
        return int(await self.line())


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("tinyagi.pipeline")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def niced(home: Home) -> Niced:
    """A pipeline that is this piece of Python."""

    def make(source: str, **environment: str) -> PipelineProcess:
        command = (sys.executable, "-I", "-S", "-c", HEAD + source)
        return PipelineProcess(home, environment, lambda text: text.replace("s3cret", "***"), command)

    return make


async def cancelled(task: "asyncio.Task[PipelineExit]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("code", [0, 3, 75])
async def test_its_exit_code_comes_back(niced: Niced, code: int) -> None:
    assert await niced(f"sys.exit({code})")(SETTINGS) == PipelineExit(code)


async def test_death_by_a_signal_comes_back(niced: Niced) -> None:
    assert (await niced("os.kill(os.getpid(), signal.SIGKILL)")(SETTINGS)).code == -signal.SIGKILL


async def test_it_and_all_that_it_starts_step_back_behind_others(niced: Niced) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    source = "own = 'import os; print(os.nice(0))'\nsubprocess.run([sys.executable, '-IS', '-c', own]); exec(own)"

    ending = await niced(source)(SETTINGS)

    assert ending.words == (str(min(own + 7, 19)),) * 2


async def test_it_knows_its_home_and_nothing_of_an_agents_run(niced: Niced, home: Home) -> None:
    source = "print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]))"
    pipeline = niced(source, PATH=os.environ["PATH"], TINYAGI_RUN="x:y", TINYAGI_AGENT_ID="a", TINYAGI_HOME="other")

    (line,) = (await pipeline(SETTINGS)).words
    environment, folder, leads_a_session = json.loads(line)

    assert environment["TINYAGI_HOME"] == str(home.path)
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"TINYAGI_RUN", "TINYAGI_AGENT_ID"} & environment.keys()
    assert (Path(folder), leads_a_session) == (home.path, True)


async def test_what_it_prints_and_complains_of_is_heard_at_once(niced: Niced, heard: Heard) -> None:
    run = asyncio.create_task(niced("print('begun', flush=True); sys.stderr.write('odd\\n'); " + SLEEP)(SETTINGS))

    assert [await heard.line(), await heard.line()] == ["begun", "odd"]
    await cancelled(run)


async def test_its_last_words_are_kept_without_secrets(niced: Niced) -> None:
    source = "[print(number) for number in range(30)]; print('\\x1b[2Jkey s3cret'); sys.exit(1)"

    ending = await niced(source)(SETTINGS)

    assert ending.words == (*map(str, range(21, 30)), "[2Jkey ***")


async def test_a_line_without_end_fills_no_memory(niced: Niced) -> None:
    ending = await niced("sys.stdout.write('x' * 1_000_000)")(SETTINGS)

    assert ending.code == 0
    assert len(ending.words) == 10
    assert max(map(len, ending.words)) <= 8_192


@pytest.mark.parametrize("manners", ["", WITHOUT_MANNERS], ids=["polite", "deaf-to-term"])
async def test_cancelled_it_returns_when_every_process_is_gone(niced: Niced, heard: Heard, manners: str) -> None:
    # Children ignore what their parent ignores.
    both = f"other = subprocess.Popen({CHILD}); print(other.pid); print(os.getpid(), flush=True)\n"
    run = asyncio.create_task(niced(manners + WORKER + both + SLEEP)(SETTINGS))
    pids = [await heard.number() for _ in range(3)]
    were_alive = list(map(is_alive, pids))

    await cancelled(run)

    assert were_alive == [True] * 3
    assert not any(map(is_alive, pids))


async def test_what_it_leaves_behind_is_ended_when_it_ends(niced: Niced, heard: Heard) -> None:
    ending = await niced(WORKER + "os.kill(os.getpid(), signal.SIGKILL)")(SETTINGS)

    assert ending.code == -signal.SIGKILL
    assert not is_alive(await heard.number())


async def test_a_program_that_is_not_there_fails_and_says_so(home: Home) -> None:
    ending = await PipelineProcess(home, {}, str, ("/nowhere/python",))(SETTINGS)

    assert ending.code == 1
    assert "No such file" in ending.words[-1]


async def test_a_home_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await PipelineProcess(Home(tmp_path / "gone"), {}, str)(SETTINGS)


def test_it_runs_the_pipeline_of_this_installation() -> None:
    assert COMMAND[0] == sys.executable
    assert " ".join(COMMAND[1:]) == "-m tinyagi pipeline run --quiet"
