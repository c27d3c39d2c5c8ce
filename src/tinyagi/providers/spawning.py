"""Starts a child in a session of its own, and says in words why it could not."""

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed

_NOT_A_PROGRAM: Final = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class Program:
    """A command-line program that an owner installs."""

    name: str
    executable: str
    """A name on the PATH, or a path."""
    install: str
    """The command that installs it."""
    log_in: str
    """What a person does when it has no valid credentials."""


def spawn(
    program: Program, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the program with a pipe to each of its three streams; raise RunFailed when it cannot be started."""
    command = [program.executable, *arguments]
    try:
        # A session is a process group as well: one signal reaches all that does not leave it on purpose.
        return subprocess.Popen(  # noqa: S603
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise RunFailed(_failure(program, cwd, error)) from error
    except ValueError as error:
        reason = f"{program.name} cannot be started with what the settings give it: {error}"
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, reason, needs_person=True)) from error


def _failure(program: Program, cwd: Path, error: OSError) -> Failure:
    told = error.strerror or str(error)
    # The system names no culprit: it says "no such file" for a missing program and for a missing folder alike.
    if not (cwd.is_dir() and os.access(cwd, os.X_OK)):
        reason = f"The workspace {cwd} cannot be entered ({told}). Create it, or set the agent's working_directory."
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True)
    if error.errno in _NOT_A_PROGRAM:
        reason = (
            f"The program {program.executable} cannot be started ({told}). "
            f"Install it with `{program.install}`, or choose another provider."
        )
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True)
    if error.errno == errno.E2BIG:
        reason = f"{program.name} was given more than the system allows on a command line ({told}). Shorten the prompt."
        return Failure(FailureKind.MESSAGE, reason)
    return Failure(FailureKind.UNAVAILABLE, f"This machine cannot start {program.name} now ({told}).")
