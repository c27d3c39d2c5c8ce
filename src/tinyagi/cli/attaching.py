"""Files that are sent along: copied into the home, where agents may read them."""

import re
import secrets
import shutil
from pathlib import Path
from typing import Final

from tinyagi.cli.edge import WrongCall

_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 100


def put_in_place(file: Path, folder: Path) -> Path:
    """Copy a file under a name of its own and return where it is."""
    source = file.expanduser()
    if not source.is_file():
        raise WrongCall(f"--file: there is no file {file}.")
    stem, suffix = _ODD.sub("_", source.stem).strip("._") or "file", _ODD.sub("", source.suffix)[:20]
    target = folder / f"{stem[:_LONGEST]}_{secrets.token_hex(4)}{suffix}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o600)
    except OSError as error:
        raise WrongCall(f"--file: {file} cannot be copied to {target}: {error.strerror}.") from error
    return target.absolute()
