"""A partial update changes the fields that the client sent, and null removes only what may be removed."""

from typing import get_type_hints

import pytest

from tinyagi.api.base import PartialUpdate
from tinyagi.api.board import ProjectChanges, TaskChanges
from tinyagi.api.schedules import ScheduleChanges
from tinyagi.domain.board import AssigneeType, ProjectFields, ProjectStatus, TaskFields, TaskStatus
from tinyagi.domain.schedules import ScheduleFields

Update = type[PartialUpdate[TaskFields]] | type[PartialUpdate[ProjectFields]] | type[PartialUpdate[ScheduleFields]]
UPDATES: list[tuple[Update, type, dict[str, object]]] = [
    (
        TaskChanges,
        TaskFields,
        {
            "title": "Dig",
            "description": "",
            "status": TaskStatus.TODO,
            "assignee": "coder",
            "assignee_type": AssigneeType.AGENT,
            "project_id": "proj_1",
        },
    ),
    (
        ProjectChanges,
        ProjectFields,
        {"name": "Web", "description": "", "prefix": "WEB", "color": "#123456", "status": ProjectStatus.ACTIVE},
    ),
    (
        ScheduleChanges,
        ScheduleFields,
        {
            "sender_id": "4711",
            "label": "daily",
            "agent_id": "coder",
            "message": "Hello",
            "cron": "0 9 * * *",
            "run_at": 5,
            "channel": "schedule",
            "sender": "me",
            "enabled": False,
            "timezone": "Europe/Berlin",
        },
    ),
]


@pytest.mark.parametrize(("update", "domain", "values"), UPDATES)
def test_an_update_has_the_fields_of_the_domain(update: Update, domain: type, values: dict[str, object]) -> None:
    assert update.model_fields.keys() == get_type_hints(domain).keys() == values.keys()
    assert update.removable <= update.model_fields.keys()


@pytest.mark.parametrize(("update", "domain", "values"), UPDATES)
def test_sent_values_are_changed_and_omitted_ones_are_not(
    update: Update, domain: type, values: dict[str, object]
) -> None:
    assert update.model_validate({}).fields() == {}
    assert update.model_validate(values).fields() == values
    for name, value in values.items():
        assert update.model_validate({name: value}).fields() == {name: value}


@pytest.mark.parametrize(
    ("update", "removed"),
    [(TaskChanges, {"assignee", "project_id"}), (ProjectChanges, {"color"}), (ScheduleChanges, {"timezone"})],
)
def test_null_removes_only_what_may_be_removed(update: Update, removed: set[str]) -> None:
    assert update.model_validate(dict.fromkeys(update.model_fields)).fields() == dict.fromkeys(removed)
