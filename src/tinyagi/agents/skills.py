"""The skills in an agent's folder: the default ones follow this version, what the owner made or changed stays."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from tinyagi.agents import front_matter
from tinyagi.agents.errors import WorkspaceError
from tinyagi.agents.templates import template, template_folders
from tinyagi.agents.texts import (
    TEXT_LIMIT,
    create_text,
    explained,
    read_bytes,
    read_head,
    read_text,
    replace_text,
)
from tinyagi.domain.texts import one_line

RECORD: Final = ".tinyagi.json"
"""Hashes of what we wrote: a file that differs from its hash is the owner's."""
MAX_SKILLS: Final = 200
MAX_DESCRIPTION: Final = 1_024

_FILE: Final = "SKILL.md"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as the folder has it."""

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
    """What a sync did to the default skills; `kept` are those that the owner changed, which stay as they are."""

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
    """The skills of the package, by id."""
    texts = {name: template(f"skills/{name}/{_FILE}") for name in template_folders("skills")}
    return tuple(DefaultSkill(name, version_of(text), text) for name, text in texts.items())


def list_skills(folder: Path) -> tuple[Skill, ...]:
    """Return the skills in the folder, by id; an emptied SKILL.md is how an owner turns one off."""
    try:
        places = sorted(place for place in islice(folder.iterdir(), MAX_SKILLS) if not place.name.startswith("."))
    except OSError:
        return ()
    heads = ((place.name, read_head(place / _FILE)) for place in places)
    return tuple(_described(name, head) for name, head in heads if head.strip())


def sync(folder: Path, skills: Sequence[DefaultSkill] | None = None) -> SkillSync:
    """Copy default skills that are missing and replace those that are older than ours and still as we wrote them."""
    record = dict(_read_record(folder))
    before = dict(record)
    steps: dict[_Step, list[str]] = {step: [] for step in _Step}
    for skill in default_skills() if skills is None else skills:
        step = _sync_one(folder, skill, record.get(skill.id))
        steps[step].append(skill.id)
        # Also when it is current: a process may have ended between the skill and the record.
        if step in {_Step.COPIED, _Step.UPDATED, _Step.CURRENT}:
            record[skill.id] = _hash(skill.text.encode())
    if record != before:
        replace_text(folder / RECORD, json.dumps({"written": record}, indent=2, sort_keys=True) + "\n")
    return SkillSync(tuple(steps[_Step.COPIED]), tuple(steps[_Step.UPDATED]), tuple(steps[_Step.KEPT]))


def version_of(text: str) -> int:
    """The version in a skill's front matter; 0 when it names none."""
    said = front_matter.parse(text).get("version", "")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 10 else 0


def _sync_one(folder: Path, skill: DefaultSkill, written: str | None) -> _Step:
    place, file = folder / skill.id, folder / skill.id / _FILE
    # Through a link the text would land in a place that somebody else looks after.
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
    with explained(place):
        place.mkdir(exist_ok=True)
    # Whoever was quicker is most likely another process of ours; if not, the hash tells next time.
    return _Step.COPIED if create_text(file, skill.text) else _Step.CURRENT


def _update(file: Path, data: bytes, skill: DefaultSkill) -> _Step:
    if version_of(data.decode("utf-8", "replace")) >= skill.version:
        return _Step.NEWER
    replace_text(file, skill.text)
    return _Step.UPDATED


def _described(name: str, head: str) -> Skill:
    said = front_matter.parse(head)
    title = one_line(said.get("name", ""), MAX_DESCRIPTION) or one_line(name, MAX_DESCRIPTION)
    return Skill(name, title, one_line(said.get("description", ""), MAX_DESCRIPTION))


def _read_record(folder: Path) -> Mapping[str, str]:
    """What we wrote, by skill; a record that cannot be read means that every difference is the owner's."""
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
