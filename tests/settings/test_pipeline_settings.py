"""The pipeline's settings: invalid values are refused when they are written, not when Spark starts."""

import pytest

from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.parse import parse_settings


def test_the_pipeline_is_enabled_by_default() -> None:
    pipeline = parse_settings({}).pipeline

    assert pipeline.enabled
    assert (pipeline.master, pipeline.driver_memory, pipeline.min_events) == ("local[*]", "2g", 500)
    assert (pipeline.max_age_minutes, pipeline.warn_hours, pipeline.nice) == (15, 24, 10)
    assert (pipeline.alerts.enabled, pipeline.alerts.channel, pipeline.alerts.sender) == (True, "web", "owner")


@pytest.mark.parametrize("memory", ["512m", "768m", "1g", "16g"])
def test_memory_in_the_format_of_the_jvm_is_accepted(memory: str) -> None:
    assert parse_settings({"pipeline": {"driver_memory": memory}}).pipeline.driver_memory == memory


@pytest.mark.parametrize("memory", ["", "2", "2 g", "2gb", "0g", "-1g", "lots", "511m", "2g -XX:+Crash"])
def test_invalid_memory_is_refused(memory: str) -> None:
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
def test_an_invalid_value_is_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(InvalidSettings, match=rf"pipeline\.{name}"):
        parse_settings({"pipeline": {name: value}})


def test_unknown_names_are_kept() -> None:
    settings = parse_settings({"pipeline": {"every": "hour", "alerts": {"quiet_hours": [22, 6]}}})

    assert settings.model_dump(exclude_unset=True)["pipeline"] == {
        "every": "hour",
        "alerts": {"quiet_hours": [22, 6]},
    }
