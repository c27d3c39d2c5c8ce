"""What the doctor says of the pipeline: whether it can run, and whether a running daemon keeps up."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.daemon.conftest import Furnish
from tests.daemon.test_pidfile import another_process
from tinyagi.daemon.doctor.examination import load_context
from tinyagi.daemon.doctor.findings import Finding, Level
from tinyagi.daemon.doctor.server import pipeline
from tinyagi.settings.home import Home

HOUR = 3_600
WELL = {
    "enabled": True,
    "lake": True,
    "running": False,
    "lastError": None,
    "lastRunAt": 1,
    "throughId": 10,
    "headId": 15,
    "lagEvents": 5,
    "lagSeconds": 60.5,
}


def findings(home: Home) -> dict[str, Finding]:
    subject = load_context(home, {})
    assert subject.settings is not None
    found = list(pipeline(subject, subject.settings))
    assert all(finding.remedy for finding in found if finding.level is not Level.OK)
    return {finding.title: finding for finding in found}


@contextmanager
def a_daemon(home: Home, status: dict[str, Any]) -> Iterator[None]:
    """A process that holds the home, and an API that gives this status."""

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(status).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with another_process(home, "127.0.0.1", str(server.server_address[1])):
                yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyagi.daemon.doctor.server.pipeline_is_installed", lambda: True)


def test_a_pipeline_that_is_installed_is_well(home: Home, furnish: Furnish) -> None:
    furnish()

    found = findings(home)

    assert found.keys() == {"Pipeline"}
    assert found["Pipeline"].level is Level.OK


def test_packages_that_are_missing_are_a_hint_with_their_installation(
    home: Home, furnish: Furnish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinyagi.daemon.doctor.server.pipeline_is_installed", lambda: False)
    furnish()
    missing = findings(home)["Pipeline"]
    furnish(pipeline={"enabled": False})
    unwanted = findings(home)["Pipeline"]

    assert (missing.level, "pip install 'tinyagi[pipeline]'" in missing.remedy) == (Level.HINT, True)
    assert (unwanted.level, unwanted.found) == (Level.OK, "switched off")


def test_a_lake_that_keeps_up_is_well(home: Home, furnish: Furnish) -> None:
    furnish()
    with a_daemon(home, {"pipeline": WELL}):
        found = findings(home)
    with a_daemon(home, {"pipeline": {**WELL, "lagEvents": 1}}):
        one = findings(home)["Lake"]

    assert (found["Lake"].found, one.found) == ("5 events not archived yet", "1 event not archived yet")
    assert {title: finding.level for title, finding in found.items()} == {"Pipeline": Level.OK, "Lake": Level.OK}


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_a_lake_that_is_left_behind_is_a_warning_with_both_ways_out(
    home: Home, furnish: Furnish, *, enabled: bool
) -> None:
    furnish(pipeline={"enabled": enabled, "warn_hours": 30})
    with a_daemon(home, {"pipeline": {**WELL, "lagSeconds": 29.9 * HOUR}}):
        young = findings(home)["Lake"]
    with a_daemon(home, {"pipeline": {**WELL, "lagSeconds": 30.2 * HOUR}}):
        old = findings(home)["Lake"]

    assert (young.level, old.level) == (Level.OK, Level.WARNING)
    assert "5 events and 30 hours behind" in old.found
    assert "`tinyagi pipeline run`" in old.remedy
    assert "`tinyagi pipeline detach`" in old.remedy


def test_a_run_that_failed_is_a_warning(home: Home, furnish: Furnish) -> None:
    furnish()
    with a_daemon(home, {"pipeline": {**WELL, "lastError": "it ended with code 3"}}):
        found = findings(home)["Pipeline run"]

    assert (found.level, "it ended with code 3" in found.found) == (Level.WARNING, True)
    assert "tinyagi logs pipeline" in found.remedy


@pytest.mark.parametrize("told", [{}, {"pipeline": {"enabled": True}}, {"pipeline": None}])
def test_a_daemon_of_another_version_is_not_misunderstood(home: Home, furnish: Furnish, told: dict[str, Any]) -> None:
    furnish()
    with a_daemon(home, told):
        assert findings(home).keys() == {"Pipeline"}
