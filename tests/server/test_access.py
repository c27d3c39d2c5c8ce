"""Access control: the token, the allowed host names, and settings that the server refuses."""

import pytest

from tinyagi.domain.errors import InvalidInput
from tinyagi.server.access import AllowedNames, Token, check_settings
from tinyagi.settings.environment import is_loopback
from tinyagi.settings.model import ServerSettings

SECRET = "correct-horse-battery-staple"


def test_the_default_is_this_machine_only() -> None:
    assert ServerSettings().host == "127.0.0.1"
    assert is_loopback(ServerSettings().host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "office.example"])  # noqa: S104
def test_a_public_address_needs_a_token(host: str) -> None:
    with pytest.raises(InvalidInput, match="tinyagi token"):
        check_settings(ServerSettings(host=host), None)

    check_settings(ServerSettings(host=host), SECRET)


def test_a_guessable_token_is_refused() -> None:
    with pytest.raises(InvalidInput, match="can be guessed"):
        check_settings(ServerSettings(), "short")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_loopback_needs_no_token(host: str) -> None:
    check_settings(ServerSettings(host=host), None)


@pytest.mark.parametrize("origin", ["*", "https://*.example", "office.example", "https://office.example/path", "null"])
def test_only_an_exact_origin_can_be_allowed(origin: str) -> None:
    with pytest.raises(InvalidInput, match="allowed_origins"):
        check_settings(ServerSettings(allowed_origins=(origin,)), None)


@pytest.mark.parametrize("host", ["*", "*.example", "http://office.example"])
def test_only_an_exact_host_can_be_allowed(host: str) -> None:
    with pytest.raises(InvalidInput, match="allowed_hosts"):
        check_settings(ServerSettings(allowed_hosts=(host,)), None)


def test_host_names_are_matched_exactly() -> None:
    names = AllowedNames(ServerSettings(host="::1", allowed_hosts=("Office.example",)), 3777)

    assert {"localhost:3777", "127.0.0.1:3777", "[::1]:3777", "office.example", "office.example:3777"} <= names.hosts
    assert not {"localhost:80", "evil.example", "127.0.0.1.evil.example:3777", "office.example:1"} & names.hosts


def test_the_wildcard_address_is_not_a_host_name() -> None:
    assert "0.0.0.0:3777" not in AllowedNames(ServerSettings(host="0.0.0.0"), 3777).hosts  # noqa: S104


@pytest.mark.parametrize(
    ("authorization", "caller"),
    [
        (f"Bearer {SECRET}", "token"),
        (f"bearer {SECRET}", "token"),
        (f"Bearer {SECRET}x", None),
        (f"Bearer {SECRET[:-1]}", None),
        (f"Basic {SECRET}", None),
        (SECRET, None),
        ("Bearer ", None),
        ("", None),
    ],
)
def test_the_token_is_sent_as_a_bearer(authorization: str, caller: str | None) -> None:
    assert Token(SECRET).caller(authorization.encode(), None) == caller


def test_a_cookie_authenticates_and_does_not_contain_the_token() -> None:
    token = Token(SECRET)

    assert token.caller(None, f"a=b; tinyagi={token.cookies.issue()}".encode()) == "office"
    assert SECRET not in token.cookies.issue()
    assert Token(f"{SECRET}2").caller(None, f"tinyagi={token.cookies.issue()}".encode()) is None


@pytest.mark.parametrize("cookies", [b"", b"tinyagi=", b"tinyagi=\xff\xfe", b"tinyagi", b"=;=;", b'tinyagi="\\'])
def test_a_malformed_cookie_is_rejected(cookies: bytes) -> None:
    assert Token(SECRET).caller(None, cookies) is None


def test_a_valid_cookie_does_not_excuse_a_wrong_header() -> None:
    token = Token(SECRET)

    assert token.caller(b"Bearer wrong", f"tinyagi={token.cookies.issue()}".encode()) is None
