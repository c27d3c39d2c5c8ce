"""The skills in an agent's folder: lists them, and keeps the default skills at this version.

Skills that the owner added or changed stay as they are.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from tinyagi.agents import workspace_files
from tinyagi.agents.workspace_files import (
    TEXT_LIMIT,
    WorkspaceError,
    as_workspace_error,
    create_text,
    read_bytes,
    read_head,
    read_text,
    replace_text,
    template,
    template_folders,
)
from tinyagi.domain.texts import one_line

RECORD: Final = ".tinyagi.json"
"""Hashes of the default skills that were written: the owner has changed a file that differs from its hash."""
MAX_SKILLS: Final = 200
MAX_DESCRIPTION: Final = 1_024

_FILE: Final = "SKILL.md"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill in the folder."""

    id: str
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class DefaultSkill:
    """A skill that comes with this version."""

    id: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class SkillSync:
    """The result of a sync of the default skills; `kept` are those that the owner has changed."""

    copied: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


class _Step(StrEnum):
    COPIED = "copied"
    UPDATED = "updated"
    CURRENT = "current"
    NEWER = "newer"
    KEPT = "kept"


@cache
def default_skills() -> tuple[DefaultSkill, ...]:
    """The skills of the package, sorted by id."""
    texts = {name: template(f"skills/{name}/{_FILE}") for name in template_folders("skills")}
    return tuple(DefaultSkill(name, version_of(text), text) for name, text in texts.items())


def list_skills(folder: Path) -> tuple[Skill, ...]:
    """Return the skills in the folder, sorted by id; an owner turns a skill off by emptying its SKILL.md."""
    try:
        places = sorted(place for place in islice(folder.iterdir(), MAX_SKILLS) if not place.name.startswith("."))
    except OSError:
        return ()
    heads = ((place.name, read_head(place / _FILE)) for place in places)
    return tuple(_described(name, head) for name, head in heads if head.strip())


def sync_skills(folder: Path, skills: Sequence[DefaultSkill] | None = None) -> SkillSync:
    """Copy missing default skills, and replace outdated ones that the owner has not changed."""
    record = dict(_read_record(folder))
    before = dict(record)
    steps: dict[_Step, list[str]] = {step: [] for step in _Step}
    for skill in default_skills() if skills is None else skills:
        step = _sync_one(folder, skill, record.get(skill.id))
        steps[step].append(skill.id)
        # Also for a current skill: an earlier process may have ended between writing the skill and the record.
        if step in {_Step.COPIED, _Step.UPDATED, _Step.CURRENT}:
            record[skill.id] = _hash(skill.text.encode())
    if record != before:
        replace_text(folder / RECORD, json.dumps({"written": record}, indent=2, sort_keys=True) + "\n")
    return SkillSync(tuple(steps[_Step.COPIED]), tuple(steps[_Step.UPDATED]), tuple(steps[_Step.KEPT]))


def version_of(text: str) -> int:
    """The version in a skill's front matter; 0 when there is none."""
    version = workspace_files.front_matter(text).get("version", "")
    return int(version) if version.isascii() and version.isdecimal() and len(version) < 10 else 0


def _sync_one(folder: Path, skill: DefaultSkill, written: str | None) -> _Step:
    place, file = folder / skill.id, folder / skill.id / _FILE
    # A write through a link would change a file outside of this folder.
    if place.is_symlink() or file.is_symlink():
        return _Step.KEPT
    try:
        data = read_bytes(file, TEXT_LIMIT)
    except FileNotFoundError:
        return _copy(place, file, skill)
    except OSError:
        return _Step.KEPT
    if data == skill.text.encode():
        return _Step.CURRENT
    if _hash(data) != written:
        return _Step.KEPT
    return _update(file, data, skill)


def _copy(place: Path, file: Path, skill: DefaultSkill) -> _Step:
    with as_workspace_error(place):
        place.mkdir(exist_ok=True)
    # If the file exists now, another TinyAGI process probably wrote it; if not, the next sync finds a different hash.
    return _Step.COPIED if create_text(file, skill.text) else _Step.CURRENT


def _update(file: Path, data: bytes, skill: DefaultSkill) -> _Step:
    if version_of(data.decode("utf-8", "replace")) >= skill.version:
        return _Step.NEWER
    replace_text(file, skill.text)
    return _Step.UPDATED


def _described(name: str, head: str) -> Skill:
    fields = workspace_files.front_matter(head)
    title = one_line(fields.get("name", ""), MAX_DESCRIPTION) or one_line(name, MAX_DESCRIPTION)
    return Skill(name, title, one_line(fields.get("description", ""), MAX_DESCRIPTION))


def _read_record(folder: Path) -> Mapping[str, str]:
    """The recorded hashes by skill; without a readable record every difference counts as the owner's change."""
    try:
        record = json.loads(read_text(folder / RECORD) or "{}")
    except (WorkspaceError, ValueError, RecursionError):
        return {}
    written = record.get("written") if isinstance(record, dict) else None
    if not isinstance(written, dict):
        return {}
    return {skill: value for skill, value in written.items() if isinstance(value, str)}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
