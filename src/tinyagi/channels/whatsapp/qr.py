"""The code that links the channel with a phone: a file for the daemon's API, and blocks for a terminal."""

import os
from pathlib import Path
from typing import Final

import segno

FILE: Final = "qr.txt"
_BLOCKS: Final = {(0, 0): "█", (0, 1): "▀", (1, 0): "▄", (1, 1): " "}
"""Characters for two modules one above the other; the light ones are drawn, for a dark terminal."""
_QUIET: Final = 2


class QrFile:
    """`qr.txt` in the state folder, readable for the owner only; there is none once the phone is linked."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE

    def write(self, code: str) -> None:
        new = self._path.with_suffix(".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123 - with a mode
            file.write(code + "\n")
        new.replace(self._path)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def half_blocks(code: str) -> str:
    """The QR code as lines of text, two rows of it in each."""
    matrix = segno.make_qr(code).matrix
    width = len(matrix) + 2 * _QUIET
    rows = [[0] * _QUIET + [int(module) for module in row] + [0] * _QUIET for row in matrix]
    rows = [[0] * width] * _QUIET + rows + [[0] * width] * (_QUIET + len(matrix) % 2)
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return "\n".join("".join(_BLOCKS[above, below] for above, below in zip(*pair, strict=True)) for pair in pairs)
