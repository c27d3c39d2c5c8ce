"""The doctor's findings about the pipeline: its packages, its last run and its lag."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.daemon.conftest import WriteSettings
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
def daemon_with_status(home: Home, status: dict[str, Any]) -> Iterator[None]:
    """A process that holds the home, and an API that returns this status."""

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(status).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """No output."""

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


def test_an_installed_pipeline_is_ok(home: Home, write_settings: WriteSettings) -> None:
    write_settings()

    found = findings(home)

    assert found.keys() == {"Pipeline"}
    assert found["Pipeline"].level is Level.OK


def test_missing_packages_are_a_hint_with_the_install_command(
    home: Home, write_settings: WriteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinyagi.daemon.doctor.server.pipeline_is_installed", lambda: False)
    write_settings()
    missing = findings(home)["Pipeline"]
    write_settings(pipeline={"enabled": False})
    unwanted = findings(home)["Pipeline"]

    assert (missing.level, "pip install 'tinyagi[pipeline]'" in missing.remedy) == (Level.HINT, True)
    assert (unwanted.level, unwanted.found) == (Level.OK, "switched off")


def test_a_lake_with_a_small_lag_is_ok(home: Home, write_settings: WriteSettings) -> None:
    write_settings()
    with daemon_with_status(home, {"pipeline": WELL}):
        found = findings(home)
    with daemon_with_status(home, {"pipeline": {**WELL, "lagEvents": 1}}):
        one = findings(home)["Lake"]

    assert (found["Lake"].found, one.found) == ("5 events not archived yet", "1 event not archived yet")
    assert {title: finding.level for title, finding in found.items()} == {"Pipeline": Level.OK, "Lake": Level.OK}


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_a_lake_with_a_large_lag_is_a_warning_with_two_remedies(
    home: Home, write_settings: WriteSettings, *, enabled: bool
) -> None:
    write_settings(pipeline={"enabled": enabled, "warn_hours": 30})
    with daemon_with_status(home, {"pipeline": {**WELL, "lagSeconds": 29.9 * HOUR}}):
        young = findings(home)["Lake"]
    with daemon_with_status(home, {"pipeline": {**WELL, "lagSeconds": 30.2 * HOUR}}):
        old = findings(home)["Lake"]

    assert (young.level, old.level) == (Level.OK, Level.WARNING)
    assert "5 events and 30 hours behind" in old.found
    assert "`tinyagi pipeline run`" in old.remedy
    assert "`tinyagi pipeline detach`" in old.remedy


def test_a_failed_run_is_a_warning(home: Home, write_settings: WriteSettings) -> None:
    write_settings()
    with daemon_with_status(home, {"pipeline": {**WELL, "lastError": "it ended with code 3"}}):
        found = findings(home)["Pipeline run"]

    assert (found.level, "it ended with code 3" in found.found) == (Level.WARNING, True)
    assert "tinyagi logs pipeline" in found.remedy


@pytest.mark.parametrize("status", [{}, {"pipeline": {"enabled": True}}, {"pipeline": None}])
def test_a_status_with_missing_fields_is_ignored(
    home: Home, write_settings: WriteSettings, status: dict[str, Any]
) -> None:
    write_settings()
    with daemon_with_status(home, status):
        assert findings(home).keys() == {"Pipeline"}
