"""When the lake is brought up to date, what Spark is given for it, and who is told when something is odd."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from tinyagi.settings.section import Period, Section

LEAST_MEMORY: Final = 512
"""Megabytes: with less, Spark refuses to start."""


def _enough(memory: str) -> str:
    megabytes = int(memory[:-1]) * (1024 if memory[-1] == "g" else 1)
    if megabytes < LEAST_MEMORY:
        raise ValueError(f"Spark does not start with less than {LEAST_MEMORY}m")
    return memory


Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}[mg]$"), AfterValidator(_enough)]
"""As the JVM writes it: 512m, 2g."""


class AlertSettings(Section):
    """Who is told when what the lake shows is unlike other days."""

    enabled: bool = True
    channel: Annotated[str, Field(min_length=1, max_length=64)] = "web"
    sender: Annotated[str, Field(min_length=1, max_length=256)] = "owner"
    sender_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The chat on that channel, where it needs one."""


class PipelineSettings(Section):
    enabled: bool = True
    """Whether the daemon runs the pipeline by itself. By hand it runs all the same."""
    master: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^\S+$")] = "local[*]"
    driver_memory: Memory = "2g"
    min_events: Annotated[int, Field(ge=1, le=1_000_000_000)] = 500
    max_age_minutes: Annotated[float, Field(gt=0, le=7 * 24 * 60, allow_inf_nan=False)] = 15
    check_seconds: Period = 30
    batch_events: Annotated[int, Field(ge=1, le=100_000_000)] = 500_000
    warn_hours: Annotated[float, Field(gt=0, le=24 * 366, allow_inf_nan=False)] = 24
    nice: Annotated[int, Field(ge=0, le=19)] = 10
    alerts: AlertSettings = AlertSettings()
