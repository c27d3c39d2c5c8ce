"""Real child processes: misbehaving ones, and that none is left."""

import asyncio
import errno
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.programs import QUICK, SLEEP, a_program, executable, is_alive
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import RunLimits
from tinyagi.providers.base import Deadline, RunFailed
from tinyagi.providers.pipes import TAIL
from tinyagi.providers.process import RUN_VARIABLE, Exit, find_run_processes, run_child

DETACHED = f"subprocess.Popen([sys.executable, '-IS', '-c', {SLEEP!r}], start_new_session=True)"
ATTACHED = f"subprocess.Popen([sys.executable, '-IS', '-c', {SLEEP!r}])"
IGNORES_TERM = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
HEAD = "import os, signal, subprocess, sys, time\n"


class Run:
    """One run of a program in a folder; keeps the output lines."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.folder = folder
        self.run_id = run_id
        self.lines: list[bytes] = []
        self.printed = asyncio.Event()

    def hear(self, line: bytes) -> None:
        self.lines.append(line)
        self.printed.set()

    async def __call__(
        self,
        source: str,
        *,
        stdin: bytes = b"",
        limits: RunLimits = QUICK,
        arguments: Sequence[str] = (),
        on_line: Callable[[bytes], None] | None = None,
    ) -> Exit:
        return await run_child(
            a_program(executable(self.folder, HEAD + source)),
            arguments,
            stdin=stdin,
            cwd=self.folder,
            environment={"PATH": os.environ["PATH"], RUN_VARIABLE: self.run_id},
            limits=limits,
            on_line=on_line or self.hear,
        )

    def left(self) -> list[str]:
        return [" ".join(process.cmdline()) for process in find_run_processes(self.run_id)]


@pytest.fixture
async def run(tmp_path: Path, run_id: str) -> AsyncIterator[Run]:
    """The test fails on errors that only the event loop's exception handler sees."""
    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    yield Run(tmp_path, run_id)
    assert unseen == []


async def test_lines_exit_code_and_stderr_are_returned(run: Run) -> None:
    end = await run(
        "print('one'); print('two', end='', flush=True); sys.stderr.write('\\x1b[31mred\\x1b[0m'); sys.exit(3)"
    )
    assert run.lines == [b"one", b"two"]
    assert (end.code, end.stderr_tail) == (3, "red")


async def test_the_child_has_the_given_folder_and_environment_only(run: Run) -> None:
    await run("print(os.getcwd()); print(sorted(set(os.environ) - {'LC_CTYPE'}))")
    assert run.lines == [str(run.folder).encode(), b"['PATH', 'TINYAGI_RUN']"]


async def test_arguments_are_not_interpreted_by_a_shell(run: Run) -> None:
    await run("print(sys.argv[1:])", arguments=["$(id)", "a b", "--", "'; rm -rf x"])
    assert run.lines == [b"""['$(id)', 'a b', '--', "'; rm -rf x"]"""]


async def test_a_large_prompt_goes_through_stdin(run: Run) -> None:
    prompt = os.urandom(1_000_000)
    await run("import hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=prompt)
    assert run.lines == [hashlib.sha256(prompt).hexdigest().encode()]


@pytest.mark.parametrize("source", ["print('done')", "os.close(0); print('done')", "os.read(0, 10); print('done')"])
async def test_a_child_that_does_not_read_its_prompt_succeeds(run: Run, source: str) -> None:
    end = await run(source, stdin=b"x" * 1_000_000)
    assert (run.lines, end.code) == ([b"done"], 0)


async def test_a_child_that_writes_while_it_reads_does_not_block(run: Run) -> None:
    source = "sys.stdout.write('y' * 999_999 + '\\n'); sys.stdout.flush(); print(len(sys.stdin.buffer.read()))"
    await run(source, stdin=b"x" * 1_000_000)
    assert [len(run.lines[0]), run.lines[1]] == [999_999, b"1000000"]


async def test_a_hanging_child_is_ended_by_the_run_timeout(run: Run) -> None:
    with pytest.raises(RunFailed) as caught:
        await run(f"{ATTACHED}; {SLEEP}", limits=replace(QUICK, run=timedelta(seconds=0.5)))
    assert caught.value.failure.kind is FailureKind.TIMEOUT
    assert "(timeout_seconds)" in caught.value.failure.reason
    assert run.left() == []


async def test_a_silent_child_is_ended_by_the_idle_timeout(run: Run) -> None:
    with pytest.raises(RunFailed) as caught:
        await run(f"print('hello', flush=True); {SLEEP}", limits=replace(QUICK, idle=timedelta(seconds=0.5)))
    assert caught.value.failure.kind is FailureKind.TIMEOUT
    assert "(idle_timeout_seconds)" in caught.value.failure.reason
    assert run.left() == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_output_of_a_child_resets_the_idle_timeout(
    run: Run, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = asyncio.Event()
    monkeypatch.setattr(Deadline, "touch", lambda _: touched.set())
    task = asyncio.create_task(run(f"sys.{stream}.write('.'); sys.{stream}.flush(); {SLEEP}"))
    await touched.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.lines == []


async def cancelled_when_ready(run: Run, source: str, limits: RunLimits = QUICK) -> None:
    """Run it until it prints something, then cancel it."""
    task = asyncio.create_task(run(source, limits=limits))
    await run.printed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_child_that_ignores_term_is_killed_after_the_grace_period(run: Run) -> None:
    source = f"{IGNORES_TERM}; print('ready', flush=True); {SLEEP}"
    await cancelled_when_ready(run, source, replace(QUICK, grace=timedelta(seconds=0.2)))
    assert run.left() == []


async def test_a_child_can_clean_up_within_the_grace_period(run: Run) -> None:
    source = """
def tidy(number, frame):
    os.write(1, b"x" * 1_000_000)
    open("tidy", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
print("ready", flush=True)
time.sleep(300)
"""
    await cancelled_when_ready(run, source, replace(QUICK, grace=timedelta(seconds=30)))
    assert (run.folder / "tidy").exists()


async def test_a_stopped_child_is_ended(run: Run) -> None:
    with pytest.raises(RunFailed):
        await run(
            "os.kill(os.getpid(), signal.SIGSTOP)",
            limits=RunLimits(run=timedelta(seconds=0.5), grace=timedelta(seconds=0.2)),
        )
    assert run.left() == []


async def test_a_detached_process_is_ended_by_a_timeout(run: Run) -> None:
    with pytest.raises(RunFailed):
        await run(f"{DETACHED}; {SLEEP}", limits=replace(QUICK, run=timedelta(seconds=2)))
    assert run.left() == []


async def test_a_detached_process_is_ended_when_the_child_fails(run: Run) -> None:
    assert (await run(f"{DETACHED}; sys.exit(1)")).code == 1
    assert run.left() == []


async def test_a_process_of_the_group_is_ended_when_the_child_is_done(run: Run) -> None:
    # Without the variable of the run, so only the process group identifies it.
    end = await run("print(subprocess.Popen(['/bin/sleep', '300'], env={}).pid)")
    assert end.code == 0
    assert not is_alive(int(run.lines[0]))


async def test_a_grandchild_that_holds_the_pipes_does_not_hang_the_run(run: Run) -> None:
    end = await run(f"{ATTACHED}; print('answer')")
    assert (run.lines, end.code) == ([b"answer"], 0)
    assert run.left() == []


async def test_a_flood_on_stderr_is_drained_and_its_end_is_kept(run: Run) -> None:
    end = await run("for _ in range(50): sys.stderr.write('x' * 1_000_000)\nsys.stderr.write('the end'); print('done')")
    assert run.lines == [b"done"]
    assert end.stderr_tail.endswith("the end")
    assert len(end.stderr_tail) <= TAIL


async def test_an_overlong_line_is_dropped(run: Run) -> None:
    end = await run("for _ in range(20): sys.stdout.write('x' * 1_000_000)\nprint(); print('next')")
    assert (run.lines, end.dropped_lines, end.code) == ([b"next"], 1, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_child_killed_by_a_foreign_signal_is_a_failure(run: Run, number: signal.Signals) -> None:
    with pytest.raises(
        RunFailed, match=f"program was ended by {number.name}, which TinyAGI did not send. oops"
    ) as caught:
        await run(f"sys.stderr.write('oops'); sys.stderr.flush(); os.kill(os.getpid(), {number.value})")
    assert caught.value.failure.kind is FailureKind.MESSAGE


async def test_a_cancelled_run_leaves_no_process(run: Run) -> None:
    await cancelled_when_ready(run, f"{ATTACHED}; {DETACHED}; print('ready', flush=True); {SLEEP}")
    assert run.left() == []


async def test_repeated_cancellations_still_end_a_child_that_ignores_term(run: Run) -> None:
    source = f"{IGNORES_TERM}; {DETACHED}; print('ready', flush=True); {SLEEP}"
    task = asyncio.create_task(run(source, limits=replace(QUICK, grace=timedelta(seconds=0.5))))
    await run.printed.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.left() == []


@pytest.mark.parametrize("is_ending", [False, True])
async def test_a_loop_that_ends_during_a_run_leaves_no_process(run: Run, is_ending: bool) -> None:
    async def leave() -> None:
        run.printed = asyncio.Event()
        source = f"{IGNORES_TERM}; {ATTACHED}; print('ready', flush=True); {SLEEP}"
        # A run that is ending already is killed at once when the loop ends, so it need not wait for this.
        grace = timedelta(minutes=1) if is_ending else timedelta(seconds=0.5)
        task = asyncio.create_task(run(source, limits=replace(QUICK, grace=grace)))
        await run.printed.wait()
        if is_ending:
            task.cancel()
            await asyncio.wait([task], timeout=0.1)
            assert not task.done()

    await asyncio.to_thread(asyncio.run, leave())
    assert run.left() == []


async def test_an_error_in_on_line_ends_the_child_and_stops_the_calls(run: Run) -> None:
    def refuse(line: bytes) -> None:
        run.lines.append(line)
        raise RuntimeError("not this line")

    last_words = "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'last words\\n'), os._exit(0)))"
    with pytest.raises(RuntimeError, match="not this line"):
        await run(f"{last_words}; print('one', flush=True); {SLEEP}", on_line=refuse)
    assert run.lines == [b"one"]
    assert run.left() == []


async def test_a_thread_waits_without_pidfd_open(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.ENOSYS, "not here")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    end = await run("print('one'); sys.exit(4)")
    assert (run.lines, end.code) == ([b"one"], 4)
    with pytest.raises(RunFailed):
        await run(SLEEP, limits=replace(QUICK, run=timedelta(seconds=0.3)))
    assert run.left() == []


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open files")
async def test_a_run_leaves_no_open_file(run: Run) -> None:
    await run("print('warm')")
    before = open_files()
    for source in ("print('one')", "sys.exit(1)", f"{ATTACHED}; print('two')"):
        await run(source, stdin=b"x" * 200_000)
    with pytest.raises(RunFailed):
        await run(SLEEP, stdin=b"x" * 200_000, limits=replace(QUICK, run=timedelta(seconds=0.3)))
    assert open_files() == before


async def test_children_run_concurrently(run: Run) -> None:
    program = a_program(executable(run.folder, "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[1]))"))

    async def one(number: int) -> tuple[list[bytes], int]:
        heard: list[bytes] = []
        end = await run_child(
            program,
            [str(number)],
            stdin=b"",
            cwd=run.folder,
            environment={RUN_VARIABLE: f"{run.run_id}-{number}"},
            limits=QUICK,
            on_line=heard.append,
        )
        return heard, end.code

    assert await asyncio.gather(*map(one, range(20))) == [([str(n).encode()], n) for n in range(20)]
