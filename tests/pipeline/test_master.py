"""The Spark master is checked before Java starts: a short error within seconds."""

import asyncio
import json
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.test_pipeline_commands import acknowledge
from tests.support.lakes import write_lake
from tests.support.ports import free_port
from tests.support.three_runs import THREE_RUNS
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.spark import session as master_module
from tinyagi.pipeline.spark.session import check_master
from tinyagi.pipeline.spark.session_settings import is_local
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.settings.home import Home

SPARK = struct.pack(">qbi", 13, 8, 0)
"""The frame with which a master refuses a stream."""


@contextmanager
def answering(answer: bytes, *, hangs_up: bool = False) -> Iterator[int]:
    """A port where each caller gets this answer to its first bytes."""
    is_over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)
            self.request.sendall(answer)
            if not hangs_up:
                is_over.wait(60)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            is_over.set()
            server.shutdown()


@pytest.mark.parametrize("master", ["local", "local[*]", "local[3]", "local[ 3 ]", "local[4,2]", "local[*,2]"])
def test_a_local_master_needs_no_network(master: str) -> None:
    check_master(master)

    assert is_local(master)


@pytest.mark.parametrize(
    "master",
    [
        *("yarn", "k8s://https://host:443", "local-cluster[2,1,1024]", "local[0]", "local[x]", "locally"),
        *("spark://host", "spark://:7077", "spark://host:port", "spark://host:70000", "spark://", "host:7077"),
    ],
)
def test_an_unsupported_master_is_refused_with_the_supported_ones(master: str) -> None:
    with pytest.raises(PipelineError) as refused:
        check_master(master)

    assert str(refused.value) == (
        f"`pipeline.master` is {master}, which is not supported. "
        "Set it to local[*], local[N] or spark://host:port in settings.json."
    )
    assert not is_local(master)


def test_a_cluster_that_answers_is_accepted() -> None:
    with answering(SPARK) as port:
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")


def test_a_master_that_closes_the_connection_is_accepted() -> None:
    with answering(b"", hangs_up=True) as port:
        check_master(f"spark://127.0.0.1:{port}")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0", b""])
def test_a_port_of_another_program_is_reported(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_module, "ANSWER_TIMEOUT", timedelta(seconds=0.2))
    with answering(answer) as port, pytest.raises(PipelineError) as refused:
        check_master(f"spark://127.0.0.1:{port}")

    assert f"127.0.0.1:{port} does not answer like a Spark master. Start that Spark master, or" in str(refused.value)


def test_an_unreachable_cluster_is_reported_with_the_reason() -> None:
    port = free_port()

    with pytest.raises(PipelineError) as refused:
        check_master(f"spark://127.0.0.1:{port}")

    assert str(refused.value) == (
        f"`pipeline.master` is spark://127.0.0.1:{port}, and 127.0.0.1:{port} cannot be reached: Connection refused. "
        "Start that Spark master, or use this machine: set it to local[*] in settings.json."
    )


def test_an_unknown_host_is_reported() -> None:
    with pytest.raises(PipelineError, match=r"nowhere\.invalid:7077 cannot be reached: "):
        check_master("spark://nowhere.invalid:7077")


@pytest.mark.parametrize("command", [("shell",), ("run",)])
@pytest.mark.parametrize("master", ["yarn", "spark://127.0.0.1:1"])
def test_a_command_with_a_bad_master_fails_without_java(tmp_path: Path, master: str, command: tuple[str, ...]) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    asyncio.run(acknowledge(home, None))
    write_lake(home.lake, {**dict.fromkeys(TABLES, ()), "silver.runs": THREE_RUNS})
    home.settings_file.write_text(json.dumps({"pipeline": {"master": master}}))

    result = Shell(home)("pipeline", *command)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"tinyagi: `pipeline.master` is {master}, ")
    assert len(result.stderr.strip().splitlines()) == 1
