"""A program that repeats the recorded output of a real one: the n-th call of a case, for any input."""

import json
import sys
from pathlib import Path
from typing import Any, Final

CASES: Final = Path(__file__).parents[1] / "data" / "cli"

_PLAYER: Final = """#!{python} -IS
import json, pathlib, sys
folder = pathlib.Path({folder!r})
place = len(list(folder.glob("call-*")))
call = json.loads((folder / "case.json").read_text())["calls"][place]
asked = dict(arguments=sys.argv[1:], stdin=sys.stdin.buffer.read().decode())
(folder / f"call-{{place}}.json").write_text(json.dumps(asked))
sys.stderr.write(call["stderr"])
for line in call["stdout"]:
    print(json.dumps(line))
sys.exit(call["code"])
"""


class Replay:
    """One recorded case, ready to be run as `executable`."""

    def __init__(self, folder: Path, program: str, case: str) -> None:
        self._folder = folder / f"replay-{program}-{case}"
        self._folder.mkdir()
        self.calls: list[dict[str, Any]] = []
        recorded = (CASES / program / f"{case}.json").read_text()
        self.recorded: list[dict[str, Any]] = json.loads(recorded)["calls"]
        (self._folder / "case.json").write_text(recorded)
        player = self._folder / program
        player.write_text(_PLAYER.format(python=sys.executable, folder=str(self._folder)))
        player.chmod(0o755)
        self.executable = str(player)

    def asked(self) -> list[list[str]]:
        """The arguments of each call so far."""
        return [json.loads(path.read_text())["arguments"] for path in sorted(self._folder.glob("call-*"))]
