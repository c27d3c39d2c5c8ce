"""claude refuses to run as root outside a sandbox, and the provider passes on the reason."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e_cli.programs import CLAUDE
from tests.support.fake_llm import fake_llm
from tests.support.runs import failure_of
from tinyagi.domain.retry import FailureKind
from tinyagi.providers.claude import Claude


@pytest.mark.skipif(os.getuid() != 0, reason="only root is refused")
async def test_root_without_a_sandbox_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with fake_llm() as llm:
        request = CLAUDE.request(llm, tmp_path, "hello")
        environment = {name: value for name, value in request.environment.items() if name != "IS_SANDBOX"}
        failure = await failure_of(Claude(CLAUDE.executable), replace(request, environment=environment))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert "root/sudo" in failure.reason
