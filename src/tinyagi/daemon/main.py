"""The daemon process: takes the home's lock, opens the log, runs engine and API, stops on a signal or restarts."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import Final, NoReturn

from tinyagi.api_wiring import open_api
from tinyagi.backup.swap import finish
from tinyagi.daemon.channel_process import ChannelProcess
from tinyagi.daemon.logs import ALREADY_SHOWN, logging_to
from tinyagi.daemon.pidfile import DaemonError, PidFile, hold_pid_file
from tinyagi.daemon.pipeline_process import PipelineProcess
from tinyagi.daemon.redaction import Redactor
from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.messages import PLATFORM_CHANNELS
from tinyagi.domain.texts import one_line
from tinyagi.engine.pipeline_trigger import RunPipeline
from tinyagi.server.access import check_settings as check_access
from tinyagi.server.http import bind
from tinyagi.server.relays import Relays
from tinyagi.settings.environment import api_host, api_port, api_token, snapshot, without_run_variables
from tinyagi.settings.first_run import ensure_settings
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.system.processes import raise_file_limit
from tinyagi.wiring import open_engine

SWITCH_INTERVAL: Final = timedelta(microseconds=100)

Print = Callable[[str], None]

log = logging.getLogger(__name__)
_console_log = logging.getLogger("tinyagi.daemon")


def set_switch_interval() -> None:
    """Let threads switch more often than by Python's default.

    The store's writer thread needs the GIL back after every statement and would wait for the event loop each time:
    that costs an eighth of the throughput, measured with short runs.
    """
    sys.setswitchinterval(SWITCH_INTERVAL.total_seconds())


class StopRequest:
    """A stop or restart, requested by a signal or through the API."""

    def __init__(self, halt: Callable[[], None]) -> None:
        """A second stop request calls `halt`, which does not wait for runs."""
        self.wants_restart = False
        self._halt = halt
        self._requested = asyncio.Event()

    def listen(self) -> None:
        """Treat SIGTERM and SIGINT as stop requests."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)

    def stop(self) -> None:
        if self._requested.is_set():
            self._halt()
        self._requested.set()

    def restart(self) -> None:
        """Stop and start again; an earlier stop request wins."""
        if not self._requested.is_set():
            self.wants_restart = True
            self._requested.set()

    async def wait(self) -> None:
        await self._requested.wait()


def serve_until_stopped(home: Home, say: Print, *, show: Print | None, level: int = logging.INFO) -> bool:
    """Serve the home until a signal comes; True when the API requested a restart.

    `say` prints messages for the console, `show` prints log lines of at least this level.
    """
    home.prepare()
    raise_file_limit()
    redact = Redactor(home, snapshot())
    with hold_pid_file(home, version("tinyagi")) as pid_file, logging_to(home.logs, redact, show=show, level=level):
        log.info("TinyAGI %s starts as process %d", version("tinyagi"), os.getpid(), extra={ALREADY_SHOWN: True})
        console = Console(pid_file, lambda text: say(redact(text)))
        try:
            completed = finish(home)
            if completed is not None:
                console.say(completed)
            return asyncio.run(run_daemon(home, console, PipelineProcess(home, snapshot(), redact)))
        except TinyAGIError as error:
            log.error("the daemon stops: %s", error, extra={ALREADY_SHOWN: True})  # noqa: TRY400 - a sentence needs no stack
            raise DaemonError(redact(str(error))) from None
        except Exception as error:
            log.critical("the daemon crashed", exc_info=error, extra={ALREADY_SHOWN: True})
            raise DaemonError(
                f"The daemon crashed: {redact(f'{type(error).__name__}: {error}')}. "
                f"The traceback is in {home.logs / 'daemon.log'}; please report it."
            ) from None


def drop_run_env(arguments: Sequence[str]) -> None:
    """Restart the process without the variables of an agent's run: /proc shows its first environment until it ends."""
    environment = snapshot()
    cleaned = without_run_variables(environment)
    if cleaned != environment:
        os.execve(sys.executable, [sys.executable, "-m", "tinyagi", *arguments], cleaned)  # noqa: S606


def exec_restart(arguments: Sequence[str]) -> NoReturn:
    """Replace this process, under the same pid, by one with the current code and settings."""
    os.execv(sys.executable, [sys.executable, "-m", "tinyagi", *arguments])  # noqa: S606


class Console:
    """Messages for the person who runs the daemon: printed, and written to the log."""

    def __init__(self, pid_file: PidFile, print_line: Print) -> None:
        self._pid_file = pid_file
        self._print_line = print_line

    def say(self, text: str) -> None:
        """Print a message and log it."""
        self._print_line(text)
        _console_log.info("%s", text, extra={ALREADY_SHOWN: True})

    def listening(self, host: str, port: int) -> None:
        """Record where the API answers."""
        self._pid_file.listening(host, port)


async def run_daemon(home: Home, console: Console, pipeline: RunPipeline | None = None) -> bool:
    """Run engine and API until SIGTERM or SIGINT; True when the API requested a restart instead."""
    for line in await asyncio.to_thread(ensure_settings, home):
        console.say(line)
    environment = snapshot()
    stored = LiveSettings(SettingsFile(home)).current.server
    configured = stored.model_copy(update={"host": api_host(environment, stored.host)})
    token = api_token(environment, configured.token)
    check_access(configured, token)
    with contextlib.closing(bind(configured.host, api_port(environment, configured.port))) as listener:
        port = listener.getsockname()[1]
        variables = {"TINYAGI_API_PORT": str(port), **({} if token is None else {"TINYAGI_API_TOKEN": token})}
        async with open_engine(home, variables=variables, pipeline=pipeline) as engine:
            set_switch_interval()
            stop = StopRequest(engine.halt)
            stop.listen()
            recovered = await engine.start()
            relays = Relays()
            channels = _channels(home, environment, relays)
            async with open_api(engine, home, listener, stop.restart, configured, token, channels, relays):
                # Objects of the start live as long as the process; a full collection would traverse them for 70 ms.
                gc.collect()
                gc.freeze()
                console.listening(configured.host, port)
                address = f"http://{configured.host}:{port}"
                console.say(f"TinyAGI runs on {home.path}, its API on {address}. Ctrl-C stops it.")
                await _start_enabled(channels, engine.settings.current.channels.enabled)
                if recovered:
                    console.say(f"Recovered {recovered} messages that an earlier engine had not finished.")
                await stop.wait()
                console.say("Finishing the current runs. Press Ctrl-C again to stop without waiting.")
                # Running agents and the relays use the API, so it stops last.
                await engine.stop()
                await asyncio.gather(*(channel.stop() for channel in channels.values()))
    return stop.wants_restart


def _channels(home: Home, environment: Mapping[str, str], relays: Relays) -> dict[str, ChannelProcess]:
    return {
        name: ChannelProcess(name, home, environment, partial(relays.release, name))
        for name in sorted(PLATFORM_CHANNELS)
    }


async def _start_enabled(channels: Mapping[str, ChannelProcess], enabled: Sequence[str]) -> None:
    for name in enabled:
        if name in channels:
            await channels[name].start()
        else:
            log.warning("channels.enabled names %s, which is not a channel: %s", one_line(name), ", ".join(channels))
