"""Keeps rendered prompts until something they are made of changes, so that a run reads no file it has read before."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.agents.memory import Scan, index_of, scan
from tinyagi.agents.prompt import Profile, read_profile_texts, system_prompt
from tinyagi.agents.workspace import Workspace
from tinyagi.domain.durations import millis
from tinyagi.domain.ids import AgentId

# File systems stamp coarsely: two changes within this time may carry one stamp.
_SETTLED_AFTER: Final = timedelta(seconds=2)

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a prompt was made of; equal sources make equal prompts."""

    profile: Profile
    prompt_file: Path | None
    system_prompt: str
    stamps: tuple[_Stamp | None, ...]
    memory: Scan

    def newest_ns(self) -> int:
        stamped = (stamp[0] for stamp in self.stamps if stamp is not None)
        return max((*stamped, *(file.changed_at_ns for file in self.memory.files)), default=0)


class PromptBook:
    """One page per agent. Not to be shared between threads that ask for the same agent at once."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._pages: dict[AgentId, tuple[_Sources, str]] = {}

    def prompt_for(self, profile: Profile, *, prompt_file: Path | None = None, system_prompt: str = "") -> str:
        """Return the system prompt of the profile with its texts and its memory index read from the workspace."""
        workspace = Workspace(profile.workspace)
        # Stamps come before the reading: a change in between shows as a difference next time.
        sources = _sources(profile, workspace, prompt_file, system_prompt)
        kept = self._pages.get(profile.agent)
        if kept is not None and kept[0] == sources:
            return kept[1]
        prompt = _render(sources, workspace)
        if self._clock_ns() - sources.newest_ns() > millis(_SETTLED_AFTER) * 1_000_000:
            self._pages[profile.agent] = sources, prompt
        return prompt


def _sources(profile: Profile, workspace: Workspace, prompt_file: Path | None, system_prompt: str) -> _Sources:
    texts = [workspace.owner_text, workspace.soul]
    if prompt_file is not None:
        texts.append(workspace.path / prompt_file)
    return _Sources(profile, prompt_file, system_prompt, tuple(map(_stamp, texts)), scan(workspace.memory))


def _render(sources: _Sources, workspace: Workspace) -> str:
    texts = read_profile_texts(workspace, sources.prompt_file, sources.system_prompt)
    return system_prompt(
        replace(
            sources.profile,
            memory_index=index_of(sources.memory),
            owner_text=texts.owner_text,
            soul=texts.soul,
            extra=texts.extra,
        )
    )


def _stamp(path: Path) -> _Stamp | None:
    try:
        # The time of change, unlike that of modification, cannot be set by whoever writes the file.
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
