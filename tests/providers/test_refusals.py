"""Classification of the output of a failing program."""

from datetime import timedelta

import pytest

from tests.support.programs import a_program
from tinyagi.domain.retry import FailureKind
from tinyagi.providers.failures import ProgramRefusal, program_failure, wait_in

PROGRAM = a_program("/usr/bin/program")


@pytest.mark.parametrize(
    "text",
    [
        "Not logged in · Please run /login",
        "Invalid API key · Fix external API key",
        "OAuth token has expired. Please obtain a new token",
        "API Error: 401 whatever",
        "unexpected status 403 Forbidden: no, url: http://localhost/v1/responses",
        "Missing environment variable: `OPENAI_API_KEY`.",
    ],
)
def test_a_login_failure_names_the_login_command(text: str) -> None:
    failure = program_failure(ProgramRefusal(text), PROGRAM)
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert failure.reason.startswith("program: ")
    assert failure.reason.endswith("run `program login`")


@pytest.mark.parametrize(
    "refusal",
    [
        ProgramRefusal("Credit balance is too low", status=400),
        ProgramRefusal("You exceeded your current quota, please check your plan and billing details.", status=429),
        ProgramRefusal("There's an issue with the selected model [model_not_found]"),
        ProgramRefusal("There's an issue with the selected model", status=404),
        ProgramRefusal("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"),
        ProgramRefusal("exit code 127: env: 'node': No such file or directory", code=127),
    ],
)
def test_a_permanent_failure_needs_a_person(refusal: ProgramRefusal) -> None:
    failure = program_failure(refusal, PROGRAM)
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert "login" not in failure.reason


@pytest.mark.parametrize(
    "refusal",
    [
        ProgramRefusal("API Error: Request rejected (429) · slow down"),
        ProgramRefusal("exceeded retry limit, last status: 429 Too Many Requests"),
        ProgramRefusal("API Error: 529 overloaded"),
        ProgramRefusal("We’re currently experiencing high demand, which may cause temporary errors."),
        ProgramRefusal("You've hit your session limit · resets 3pm (Europe/Berlin)"),
        ProgramRefusal("You've hit your usage limit. Upgrade to Pro or try again later."),
        ProgramRefusal("API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"),
        ProgramRefusal("anything", status=503),
    ],
)
def test_a_temporary_failure_is_retried_later(refusal: ProgramRefusal) -> None:
    failure = program_failure(refusal, PROGRAM)
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)


@pytest.mark.parametrize(
    "refusal",
    [
        ProgramRefusal("API Error: 400 prompt is too long"),
        ProgramRefusal("it mentions overloaded and rate limit, but the endpoint said what it is", status=422),
        ProgramRefusal("exit code 1: boom", code=1),
        ProgramRefusal("exit code 3: line 401 of file.py", code=3),
    ],
)
def test_any_other_failure_is_a_message_failure(refusal: ProgramRefusal) -> None:
    assert program_failure(refusal, PROGRAM).kind is FailureKind.MESSAGE


def test_the_reason_is_one_line_without_secrets() -> None:
    failure = program_failure(
        ProgramRefusal("bad key sk-12345\n\x1b[31mat line 2 " + "x" * 10_000), PROGRAM, ["sk-12345", None, ""]
    )
    assert failure.reason.startswith("program: bad key *** ")
    assert failure.reason.isprintable()
    assert len(failure.reason) < 600


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 7s.", timedelta(seconds=7)),
        ("Rate limit reached. Please try again in 1.5s", timedelta(seconds=1.5)),
        ("try again in 20ms", timedelta(milliseconds=20)),
        ("try again in 1 hour 5 minutes.", timedelta(hours=1, minutes=5)),
        ("try again in 2 hours, 3 minutes and 4 seconds", timedelta(hours=2, minutes=3, seconds=4)),
        ("Retry after 30 seconds", timedelta(seconds=30)),
        ("limit resets in 5 days", timedelta(days=1)),
        ("try again in 99999999999999999999 days", timedelta(days=1)),
        ("try again later", None),
        ("try again in a moment", None),
    ],
)
def test_a_wait_is_read_from_the_text(text: str, wait: timedelta | None) -> None:
    assert wait_in(text) == wait


def test_a_given_wait_wins_over_the_text() -> None:
    refusal = ProgramRefusal("status 429, try again in 7s", retry_after=timedelta(minutes=3))
    assert program_failure(refusal, PROGRAM).retry_after == timedelta(minutes=3)
    assert program_failure(ProgramRefusal("status 429, try again in 7s"), PROGRAM).retry_after == timedelta(seconds=7)
