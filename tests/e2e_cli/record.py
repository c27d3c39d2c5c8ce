"""Records the output of the real programs, for the tests that run without them: `python -m tests.e2e_cli.record`.

Needs TINYAGI_CLIS, as the suite does. Writes tests/data/cli/<program>/<case>.json, without paths, keys and long lists.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.e2e_cli.programs import KEY, PROGRAMS, RealProgram
from tests.support.fake_llm import FakeLlm, fake_llm
from tests.support.replay import CASES
from tests.support.runs import RecordedProgress
from tinyagi.providers.base import RunFailed, RunRequest

UNKNOWN = "01a1e230-0789-7f52-8c54-000000000000"
PROMPTS = {
    "answer": "{{say good morning}}",
    "tool": "{{shell echo hi}}",
    "empty": "{{nothing}}",
    **{f"status_{status}": f"{{{{status {status}}}}}" for status in (400, 401, 403, 404, 500, 529)},
    "status_429": "{{status 429 2}}",
}
KEPT_OF_INIT = ("type", "subtype", "session_id", "model", "permissionMode", "claude_code_version")

SHIM = """#!{python}
import json, pathlib, subprocess, sys
end = subprocess.run([{real!r}, *sys.argv[1:]], input=sys.stdin.buffer.read(), capture_output=True)
call = dict(arguments=sys.argv[1:], code=end.returncode, stdout=end.stdout.decode(), stderr=end.stderr.decode())
with pathlib.Path({log!r}).open("a") as file:
    file.write(json.dumps(call) + "\\n")
sys.stdout.buffer.write(end.stdout)
sys.stderr.buffer.write(end.stderr)
sys.exit(end.returncode)
"""


class Recorder:
    """Runs between a provider and its program, and records each call."""

    def __init__(self, program: RealProgram, llm: FakeLlm, home: Path) -> None:
        self._program, self._llm, self._home = program, llm, home
        self._log = home / "calls.jsonl"
        shim = home / program.name
        shim.write_text(SHIM.format(python=sys.executable, real=program.executable, log=str(self._log)))
        shim.chmod(0o755)
        self._provider = program.provider(str(shim))
        version = subprocess.run([program.executable, "--version"], capture_output=True, check=True, text=True)
        found = re.search(r"[\d.]+", version.stdout)
        self._version = found[0] if found else ""

    def request(self, prompt: str) -> RunRequest:
        return self._program.request(self._llm, self._home, prompt)

    async def record(self, case: str, request: RunRequest) -> str | None:
        """Run the request and write the case; return the session's id if there was an answer."""
        self._log.unlink(missing_ok=True)
        session_id = None
        with suppress(RunFailed):
            session_id = (await self._provider.run(request, RecordedProgress())).session_id
        calls = [self._trimmed(json.loads(line)) for line in self._log.read_text().splitlines()]
        path = CASES / self._program.name / f"{case}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": self._version, "calls": calls}, indent=1, ensure_ascii=False) + "\n")
        return session_id

    def _trimmed(self, call: dict[str, Any]) -> dict[str, Any]:
        lines = [_trimmed_line(json.loads(line)) for line in call["stdout"].splitlines()]
        text = json.dumps({**call, "stdout": lines}, ensure_ascii=False)
        for secret, name in ((str(self._home), "<home>"), (KEY, "<key>"), (str(self._llm.port), "8000")):
            text = text.replace(secret, name)
        return dict(json.loads(re.sub(r"/[^\"' ]*/tinyagi-[^/]*/", "<temporary>/", text)))


def _trimmed_line(line: dict[str, Any]) -> dict[str, Any]:
    if line.get("subtype") == "init":
        return {name: line[name] for name in KEPT_OF_INIT if name in line}
    return line


async def _record_all(program: RealProgram, llm: FakeLlm, home: Path) -> None:
    recorder = Recorder(program, llm, home)
    for case, prompt in PROMPTS.items():
        session_id = await recorder.record(case, recorder.request(prompt))
        if case == "answer":
            resumed = replace(recorder.request("{{say and good night}}"), session_id=session_id)
            await recorder.record("resume", resumed)
    await recorder.record("unknown_session", replace(recorder.request("{{say fresh}}"), session_id=UNKNOWN))
    if program.name == "claude":
        request = recorder.request("hello")
        await recorder.record("logged_out", replace(request, endpoint=replace(request.endpoint, api_key=None)))
        outside = {name: value for name, value in request.environment.items() if name != "IS_SANDBOX"}
        await recorder.record("root", replace(request, environment=outside))


async def main() -> None:
    async with fake_llm() as llm:
        for program in PROGRAMS:
            with tempfile.TemporaryDirectory(prefix="record-") as home:
                await _record_all(program, llm, Path(home))


if __name__ == "__main__":
    asyncio.run(main())
