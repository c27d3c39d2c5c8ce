"""The pipeline's settings: what is wrong is told when it is written, not when Spark starts."""

import pytest

from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.parse import parse_settings


def test_without_settings_the_daemon_archives_by_itself() -> None:
    pipeline = parse_settings({}).pipeline

    assert pipeline.enabled
    assert (pipeline.master, pipeline.driver_memory, pipeline.min_events) == ("local[*]", "2g", 500)
    assert (pipeline.max_age_minutes, pipeline.warn_hours, pipeline.nice) == (15, 24, 10)
    assert (pipeline.alerts.enabled, pipeline.alerts.channel, pipeline.alerts.sender) == (True, "web", "owner")


@pytest.mark.parametrize("memory", ["512m", "768m", "1g", "16g"])
def test_memory_is_written_as_the_jvm_writes_it(memory: str) -> None:
    assert parse_settings({"pipeline": {"driver_memory": memory}}).pipeline.driver_memory == memory


@pytest.mark.parametrize("memory", ["", "2", "2 g", "2gb", "0g", "-1g", "lots", "511m", "2g -XX:+Crash"])
def test_memory_that_spark_would_refuse_is_refused_at_once(memory: str) -> None:
    with pytest.raises(InvalidSettings, match=r"pipeline\.driver_memory"):
        parse_settings({"pipeline": {"driver_memory": memory}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nice", -1),
        ("nice", 20),
        ("min_events", 0),
        ("max_age_minutes", 0),
        ("check_seconds", 0),
        ("batch_events", 0),
        ("warn_hours", 0),
        ("master", ""),
        ("master", "local[*] --conf x=y"),
        ("enabled", "no"),
        ("alerts", {"channel": ""}),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(InvalidSettings, match=rf"pipeline\.{name}"):
        parse_settings({"pipeline": {name: value}})


def test_what_a_later_version_knows_is_kept() -> None:
    settings = parse_settings({"pipeline": {"every": "hour", "alerts": {"quiet_hours": [22, 6]}}})

    assert settings.model_dump(exclude_unset=True)["pipeline"] == {
        "every": "hour",
        "alerts": {"quiet_hours": [22, 6]},
    }
