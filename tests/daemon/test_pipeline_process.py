"""The pipeline as a real process: niced, logged, and gone with all its children at the end."""

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
# Like Spark's workers: outside the process group, but in the same session.
WORKER = f"child = subprocess.Popen({CHILD}, preexec_fn=lambda: os.setpgid(0, 0)); print(child.pid, flush=True)\n"
IGNORE_SIGTERM = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"

MakePipeline = Callable[..., PipelineProcess]


class LogLines(logging.Handler):
    """The log lines of the pipeline, as they arrive."""

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
def log_lines() -> Iterator[LogLines]:
    handler, logger = LogLines(), logging.getLogger("tinyagi.pipeline")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def pipeline_of(home: Home) -> MakePipeline:
    """A pipeline process that runs this Python source."""

    def make(source: str, **environment: str) -> PipelineProcess:
        command = (sys.executable, "-I", "-S", "-c", HEAD + source)
        return PipelineProcess(home, environment, lambda text: text.replace("s3cret", "***"), command)

    return make


async def cancel(task: "asyncio.Task[PipelineExit]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("code", [0, 3, 75])
async def test_the_exit_code_is_returned(pipeline_of: MakePipeline, code: int) -> None:
    assert await pipeline_of(f"sys.exit({code})")(SETTINGS) == PipelineExit(code)


async def test_a_signal_is_returned_as_a_negative_code(pipeline_of: MakePipeline) -> None:
    assert (await pipeline_of("os.kill(os.getpid(), signal.SIGKILL)")(SETTINGS)).code == -signal.SIGKILL


async def test_the_process_and_its_children_are_niced(pipeline_of: MakePipeline) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    source = "own = 'import os; print(os.nice(0))'\nsubprocess.run([sys.executable, '-IS', '-c', own]); exec(own)"

    ending = await pipeline_of(source)(SETTINGS)

    assert ending.last_lines == (str(min(own + 7, 19)),) * 2


async def test_the_process_gets_its_home_and_no_variables_of_an_agents_run(
    pipeline_of: MakePipeline, home: Home
) -> None:
    source = "print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]))"
    pipeline = pipeline_of(
        source, PATH=os.environ["PATH"], TINYAGI_RUN="x:y", TINYAGI_AGENT_ID="a", TINYAGI_HOME="other"
    )

    (line,) = (await pipeline(SETTINGS)).last_lines
    environment, folder, leads_a_session = json.loads(line)

    assert environment["TINYAGI_HOME"] == str(home.path)
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"TINYAGI_RUN", "TINYAGI_AGENT_ID"} & environment.keys()
    assert (Path(folder), leads_a_session) == (home.path, True)


async def test_output_and_errors_are_logged_at_once(pipeline_of: MakePipeline, log_lines: LogLines) -> None:
    run = asyncio.create_task(pipeline_of("print('begun', flush=True); sys.stderr.write('odd\\n'); " + SLEEP)(SETTINGS))

    assert [await log_lines.line(), await log_lines.line()] == ["begun", "odd"]
    await cancel(run)


async def test_the_last_lines_are_kept_without_secrets(pipeline_of: MakePipeline) -> None:
    source = "[print(number) for number in range(30)]; print('\\x1b[2Jkey s3cret'); sys.exit(1)"

    ending = await pipeline_of(source)(SETTINGS)

    assert ending.last_lines == (*map(str, range(21, 30)), "[2Jkey ***")


async def test_an_endless_line_takes_no_memory(pipeline_of: MakePipeline) -> None:
    ending = await pipeline_of("sys.stdout.write('x' * 1_000_000)")(SETTINGS)

    assert ending.code == 0
    assert len(ending.last_lines) == 10
    assert max(map(len, ending.last_lines)) <= 8_192


@pytest.mark.parametrize("prefix", ["", IGNORE_SIGTERM], ids=["ends on SIGTERM", "ignores SIGTERM"])
async def test_a_cancelled_run_ends_every_process(pipeline_of: MakePipeline, log_lines: LogLines, prefix: str) -> None:
    # Children inherit ignored signals.
    both = f"other = subprocess.Popen({CHILD}); print(other.pid); print(os.getpid(), flush=True)\n"
    run = asyncio.create_task(pipeline_of(prefix + WORKER + both + SLEEP)(SETTINGS))
    pids = [await log_lines.number() for _ in range(3)]
    were_alive = list(map(is_alive, pids))

    await cancel(run)

    assert were_alive == [True] * 3
    assert not any(map(is_alive, pids))


async def test_leftover_children_are_killed_at_the_end(pipeline_of: MakePipeline, log_lines: LogLines) -> None:
    ending = await pipeline_of(WORKER + "os.kill(os.getpid(), signal.SIGKILL)")(SETTINGS)

    assert ending.code == -signal.SIGKILL
    assert not is_alive(await log_lines.number())


async def test_a_missing_program_is_a_failure_with_a_reason(home: Home) -> None:
    ending = await PipelineProcess(home, {}, str, ("/nowhere/python",))(SETTINGS)

    assert ending.code == 1
    assert "No such file" in ending.last_lines[-1]


async def test_a_missing_home_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await PipelineProcess(Home(tmp_path / "gone"), {}, str)(SETTINGS)


def test_the_command_runs_the_pipeline_of_this_installation() -> None:
    assert COMMAND[0] == sys.executable
    assert " ".join(COMMAND[1:]) == "-m tinyagi pipeline run --quiet"
