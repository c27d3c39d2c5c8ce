"""A plugin's thread with its own event loop: code that blocks or hangs there blocks nothing else."""

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, TypeVar

from tinyagi.domain.errors import TinyAGIError

GRACE: Final = timedelta(seconds=1)
"""How long a cancelled call may take to end before its thread counts as hung."""

T = TypeVar("T")


class PluginFailed(TinyAGIError):
    """A call into a plugin failed. The cause is the plugin's exception, if it raised one."""

    @property
    def trace(self) -> BaseException | None:
        """The exception whose stack the log shows; None when the message is enough."""
        return None if isinstance(self.__cause__, TinyAGIError) else self.__cause__


class PluginHung(PluginFailed):
    """A call took too long and ignored its cancellation: its thread is lost."""


class PluginThread:
    """A daemon thread, so that it never delays the end of the process. Belongs to the loop that created it."""

    def __init__(self, name: str) -> None:
        """Start the thread; raise OSError or RuntimeError when the system cannot create a thread or loop."""
        self._owner = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._gone: asyncio.Future[None] = self._owner.create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._gate = threading.Lock()
        self._serving = True
        self._thread = threading.Thread(target=self._serve, name=f"tinyagi-plugin-{name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._loop.close()
            raise

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    async def call(self, job: Callable[[], Awaitable[T]], limit: timedelta) -> T:
        """Run the job in the thread; raise PluginFailed when it raises or takes too long."""
        call = _Call(job)
        self._post(partial(self._begin, call))
        ends: set[asyncio.Future[Any]] = {call.answer, self._gone}
        try:
            await asyncio.wait(ends, timeout=limit.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not call.answer.done():
                self._post(call.cancel)
        if call.answer.done():
            return call.outcome()
        if self._gone.done():
            raise PluginFailed("it ended its own thread")
        await asyncio.wait({call.answer}, timeout=min(limit, GRACE).total_seconds())
        failed = PluginFailed if call.answer.done() else PluginHung
        raise failed(f"it took longer than {limit.total_seconds():g} s (plugins.timeout_seconds)")

    def stop(self) -> None:
        """End the loop when the running code yields; tasks that the plugin started are cancelled."""
        self._post(self._stop.set)

    async def stopped(self, limit: timedelta) -> None:
        """Wait for the end, at most for `limit`."""
        await asyncio.wait({self._gone}, timeout=limit.total_seconds())

    def abandon(self) -> None:
        """Stop, and raise SystemExit in the running code; code that blocks outside Python gets it on its return.

        A process per plugin would be the clean way, but costs too much for the owner's own code.
        """
        self.stop()
        # While this holds the gate, the thread cannot end, so its id cannot be reused by another thread.
        with self._gate:
            if self._serving and self._thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident), ctypes.py_object(SystemExit)
                )

    def _begin(self, call: "_Call[T]") -> None:
        if self._stop.is_set():
            return
        call.task = self._loop.create_task(call.run())
        self._tasks.add(call.task)
        call.task.add_done_callback(self._tasks.discard)

    def _post(self, action: Callable[[], object]) -> None:
        # The loop is closed when the thread is about to end; then no caller waits for the action.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def _serve(self) -> None:
        try:
            # RuntimeError: the plugin stopped the loop. SystemExit: it exited in a callback, or it was abandoned.
            with (
                contextlib.suppress(RuntimeError, SystemExit),
                asyncio.Runner(loop_factory=lambda: self._loop) as runner,
            ):
                runner.run(self._until_stopped())
        finally:
            with self._gate:
                self._serving = False
            with contextlib.suppress(RuntimeError):
                self._owner.call_soon_threadsafe(self._gone.set_result, None)

    async def _until_stopped(self) -> None:
        try:
            await self._stop.wait()
        finally:
            # However the loop ends, no call starts while it shuts down.
            self._stop.set()


class _Call(Generic[T]):
    """One call; `answer` belongs to the caller's loop, everything else runs in the plugin's thread."""

    def __init__(self, job: Callable[[], Awaitable[T]]) -> None:
        self._job = job
        self._caller = asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None
        self.answer: asyncio.Future[tuple[T] | BaseException] = self._caller.create_future()

    async def run(self) -> None:
        try:
            self._reply((await self._job(),))
        except asyncio.CancelledError as error:
            self._reply(error)
            raise
        except BaseException as error:
            # SystemExit and KeyboardInterrupt, too: the plugin raised them, as Ctrl-C only reaches the main thread.
            self._reply(error)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def outcome(self) -> T:
        answer = self.answer.result()
        if isinstance(answer, BaseException):
            raise PluginFailed(describe_error(answer)) from answer
        return answer[0]

    def _reply(self, answer: tuple[T] | BaseException) -> None:
        # The caller's loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            self._caller.call_soon_threadsafe(self._receive, answer)

    def _receive(self, answer: tuple[T] | BaseException) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


def describe_error(error: BaseException) -> str:
    """The error on one line; never raises, even when the error's `__str__` does."""
    try:
        text = " ".join(str(error).split())[:500].rstrip(".")
    except Exception:
        # A plugin may raise a class whose `__str__` fails; the class name is left.
        text = ""
    if isinstance(error, TinyAGIError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
