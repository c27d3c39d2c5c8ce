"""The pipeline: whether it can run, and whether it keeps up. How far it is behind, the daemon tells."""

from collections.abc import Iterator

from pydantic import ValidationError

from tinyagi.api.status import PipelineStatus
from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, warning
from tinyagi.daemon.errors import DaemonError
from tinyagi.daemon.health import ask
from tinyagi.daemon.pidfile import look
from tinyagi.settings.environment import api_token
from tinyagi.settings.model import Settings
from tinyagi.wiring import pipeline_is_installed

_HOUR = 3600


def pipeline(subject: Subject, settings: Settings) -> Iterator[Finding]:
    if not settings.pipeline.enabled:
        yield ok("Pipeline", "switched off")
    elif not pipeline_is_installed():
        yield hint(
            "Pipeline",
            "Its packages are not installed: there is no lake, and no report beyond what the queue keeps.",
            "Install them: pip install 'tinyagi[pipeline]', or set pipeline.enabled to false.",
        )
    else:
        yield ok(
            "Pipeline", f"installed, with {settings.pipeline.master}; the daemon runs it when there is enough to do"
        )
    told = _told(subject, settings)
    if told is not None:
        yield from _failure(told)
        yield from _lag(told, settings.pipeline.warn_hours)


def _told(subject: Subject, settings: Settings) -> PipelineStatus | None:
    """What a running daemon says. One that does not run, or does not answer, is another check's finding."""
    try:
        status = ask(look(subject.home), api_token(subject.environment, settings.server.token))
    except DaemonError:
        return None
    if not isinstance(status, dict):
        return None
    try:
        return PipelineStatus.model_validate(status.get("pipeline"))
    except ValidationError:
        # A daemon of another version: it goes with the next restart.
        return None


def _failure(told: PipelineStatus) -> Iterator[Finding]:
    if told.last_error is not None:
        remedy = "It is tried again by itself. See more with `tinyagi logs pipeline`, or try it: tinyagi pipeline run"
        yield warning("Pipeline run", f"The last one failed: {told.last_error}", remedy)


def _lag(told: PipelineStatus, warn_hours: float) -> Iterator[Finding]:
    if told.lag_events is None or told.lag_seconds is None:
        return
    if told.lag_seconds < warn_hours * _HOUR:
        yield ok("Lake", f"{told.lag_events} events are not archived yet" if told.lag_events else "up to date")
        return
    yield warning(
        "Lake",
        f"It is {told.lag_events} events and {told.lag_seconds / _HOUR:.0f} hours behind; "
        "what is not archived is not pruned either.",
        "See why with `tinyagi pipeline run`, or give it up with `tinyagi pipeline detach`.",
    )
