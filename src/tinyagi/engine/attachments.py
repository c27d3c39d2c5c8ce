"""Files in answers: `[send_file: path]` attaches what lies in the agent's workspace or in the files folder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.domain.code_spans import mask_code
from tinyagi.domain.errors import InvalidInput
from tinyagi.system.files import put_in_place, write_aside

_TAG: Final = re.compile(r"\[send_file:(?P<path>[^\[\]\n]+)\]")
MAX_FILES: Final = 20
PREVIEW: Final = 1_000


@dataclass(frozen=True, slots=True)
class Attached:
    """The text without its tags, the files that may be sent, and a line about each that may not."""

    text: str
    files: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def attach(text: str, folders: Sequence[Path]) -> Attached:
    """Take the tags out of the text; relative paths start in the first folder, and real paths decide."""
    if "[send_file:" not in text:
        return Attached(text)
    files: list[str] = []
    refused: list[str] = []
    pieces: list[str] = []
    at = 0
    # Tags in code are text, as everywhere.
    for tag in _TAG.finditer(mask_code(text)):
        named = text[tag.start("path") : tag.end("path")].strip()
        pieces.append(text[at : tag.start()])
        at = tag.end()
        found = find_file(named, folders)
        if isinstance(found, Path) and len(files) < MAX_FILES:
            files.append(str(found))
        else:
            refused.append(f"({found if isinstance(found, str) else f'more than {MAX_FILES} files: {named}'})")
    pieces.append(text[at:])
    return Attached("".join(pieces).strip(), tuple(dict.fromkeys(files)), tuple(refused))


def find_file(named: str, folders: Sequence[Path]) -> Path | str:
    """The real path of a file below one of the folders, or why it is not sent.

    Links are followed first: what counts is where they lead.
    """
    try:
        path = (folders[0] / Path(named).expanduser()).resolve()
        inside = any(path.is_relative_to(folder.resolve()) for folder in folders)
        if inside and path.is_file():
            return path
    except (OSError, RuntimeError, ValueError):
        inside = True
    if not inside:
        return f"not attached, it is outside the workspace: {named}"
    return f"not attached, there is no such file: {named}"


def confined(named: str, folders: Sequence[Path]) -> str:
    """The real path of a file below one of the folders; raise InvalidInput when it is anywhere else."""
    found = find_file(named, folders)
    if isinstance(found, str):
        raise InvalidInput(f"The file is {found}.")
    return str(found)


def write_long_answer(text: str, folder: Path, name: str) -> Path:
    """Store a long answer durably as a file of its own and return its path; a repeat writes the same file again."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"response_{name}.md"
    put_in_place(write_aside(path, text.encode()), path)
    return path


def preview(text: str) -> str:
    """The beginning of a long answer, cut between words."""
    cut = text[:PREVIEW].rsplit(None, 1)[0] if " " in text[:PREVIEW] else text[:PREVIEW]
    return f"{cut.rstrip()} …\n\n(The full answer is attached.)"
