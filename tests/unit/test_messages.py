"""Messages: threads, invalid fields, attempts, and the properties of a claim."""

import pytest

from tests.support.builders import a_message
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId, ClaimId, MessageId, TeamId
from tinyagi.domain.messages import PASSIVE_PRIORITY, ROOM_CHANNEL, ROOM_PRIORITY, Message, NewMessage, thread_of
from tinyagi.domain.runs import Claim


def a_claim(*messages: Message) -> Claim:
    return Claim(ClaimId("claim_1"), AgentId("coder"), messages, started_at=0, lease_until=60_000, holds=0)


def from_person(channel: str = "web", sender: str = "Ada", sender_id: str | None = None) -> NewMessage:
    return NewMessage("hello", AgentId("coder"), channel, sender, sender_id)


def from_teammate(name: str) -> NewMessage:
    return from_person()._replace(from_agent=AgentId(name))


def from_room(team: str) -> NewMessage:
    return from_teammate("tester")._replace(channel="chatroom", team=TeamId(team))


def test_a_person_has_one_thread_per_channel() -> None:
    assert thread_of(from_person("web"), "c1") == thread_of(from_person("web"), "c2")
    assert thread_of(from_person("web"), "c1") != thread_of(from_person("discord"), "c1")


def test_a_persons_thread_uses_the_sender_id_and_else_the_name() -> None:
    assert thread_of(from_person(sender="Ada", sender_id="7"), "c1") == "web:7"
    assert thread_of(from_person(sender="Ada renamed", sender_id="7"), "c1") == "web:7"
    assert thread_of(from_person(sender="Ada"), "c1") == "web:Ada"


def test_a_teammate_has_one_thread_per_conversation() -> None:
    assert thread_of(from_teammate("tester"), "c1") == "@tester/c1"
    assert thread_of(from_teammate("tester"), "c2") == "@tester/c2"
    assert thread_of(from_teammate("writer"), "c1") == "@writer/c1"


def test_a_room_is_one_thread_for_all_senders_and_conversations() -> None:
    assert thread_of(from_room("dev"), "c1") == "#dev"
    assert thread_of(from_room("dev")._replace(from_agent=AgentId("writer")), "c2") == "#dev"
    assert thread_of(from_room("ops"), "c1") == "#ops"


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
def test_a_key_with_a_control_character_is_refused(character: str) -> None:
    key = f"a{character}b"

    for message in (
        from_person(sender=key),
        from_person(sender_id=key),
        from_person()._replace(message_id=MessageId(key)),
    ):
        with pytest.raises(InvalidInput, match="control character"):
            message.check()


def test_a_key_may_contain_any_letter() -> None:
    from_person(sender="Åsa 👩‍💻", sender_id="+49 170/1").check()


@pytest.mark.parametrize("message", [from_person(), from_teammate("tester"), from_room("dev")])
def test_an_explicit_thread_wins(message: NewMessage) -> None:
    assert thread_of(message._replace(thread="mine"), "c1") == "mine"


def test_a_stored_message_keeps_its_thread() -> None:
    assert thread_of(a_message(channel="web", thread="as stored"), "c1") == "as stored"


@pytest.mark.parametrize(
    ("other", "person"),
    [
        (from_room("dev"), from_person(channel="room", sender="dev")),
        (from_teammate("tester"), from_person(channel="c1", sender="tester")),
    ],
)
def test_a_person_never_shares_a_thread_with_a_room_or_a_teammate(other: NewMessage, person: NewMessage) -> None:
    assert thread_of(other, "c1") != thread_of(person, "c1")


def test_a_message_without_agent_is_refused() -> None:
    with pytest.raises(InvalidInput, match="route it first"):
        NewMessage("hello", AgentId("")).check()


@pytest.mark.parametrize("message_id", ["x", "x" * 128, "any Text: ä/é 7"])
def test_a_message_id_of_up_to_128_characters_is_accepted(message_id: str) -> None:
    NewMessage("hello", AgentId("coder"), message_id=MessageId(message_id)).check()


@pytest.mark.parametrize("length", [0, 129, 10_000])
def test_a_message_id_of_another_length_is_refused(length: int) -> None:
    message = NewMessage("hello", AgentId("coder"), message_id=MessageId("x" * length))
    with pytest.raises(InvalidInput, match=f"1 to 128 characters, this one has {length}"):
        message.check()


@pytest.mark.parametrize("channel", ["", "#dev", "@tester", "a b", "Web"])
def test_an_invalid_channel_name_is_refused(channel: str) -> None:
    with pytest.raises(InvalidInput, match="is not a channel name"):
        NewMessage("hello", AgentId("coder"), channel=channel).check()


@pytest.mark.parametrize("priority", [PASSIVE_PRIORITY, -100])
def test_a_passive_priority_is_refused_except_for_room_posts(priority: int) -> None:
    with pytest.raises(InvalidInput, match="reserved for passive room posts"):
        NewMessage("hello", AgentId("coder"), priority=priority).check()
    from_room("dev")._replace(priority=priority).check()


def test_a_passive_room_post_cannot_be_delayed() -> None:
    with pytest.raises(InvalidInput, match="reserved for passive room posts"):
        from_room("dev")._replace(priority=PASSIVE_PRIORITY, available_at=5).check()


@pytest.mark.parametrize("priority", [ROOM_PRIORITY, 0, 100])
def test_other_priorities_are_accepted(priority: int) -> None:
    NewMessage("hello", AgentId("coder"), priority=priority).check()


@pytest.mark.parametrize(
    ("before", "after"), [(PASSIVE_PRIORITY, ROOM_PRIORITY), (ROOM_PRIORITY, ROOM_PRIORITY), (5, 5)]
)
def test_only_a_passive_room_post_changes_its_priority_after_a_try(before: int, after: int) -> None:
    assert a_message(channel=ROOM_CHANNEL, priority=before).priority_once_tried == after


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "é\udc00"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        NewMessage(text, AgentId("coder")).check()


def test_a_message_id_is_optional() -> None:
    NewMessage("hello", AgentId("coder")).check()


def test_the_first_attempt_is_number_one() -> None:
    assert a_message(retry_count=0).attempt == 1
    assert a_message(retry_count=3).attempt == 4


def test_a_fresh_message_has_not_failed_before() -> None:
    assert not a_message().failed_before


def test_a_message_with_a_used_attempt_has_failed_before() -> None:
    assert a_message(retry_count=1).failed_before


def test_a_retried_dead_message_has_failed_before() -> None:
    assert a_message(retry_count=0, last_error="exit code 1").failed_before


def test_a_claim_counts_the_attempts_of_its_primary() -> None:
    claim = a_claim(a_message(id=5, retry_count=2), a_message(id=6))
    assert claim.primary.id == 5
    assert claim.attempt == 3


def test_a_run_of_room_posts_is_room_only() -> None:
    assert a_claim(a_message(id=1, channel="chatroom"), a_message(id=2, channel="chatroom")).is_room_only


@pytest.mark.parametrize("channels", [("web",), ("web", "chatroom"), ("chatroom", "web")])
def test_a_run_with_another_channel_is_not_room_only(channels: tuple[str, ...]) -> None:
    messages = [a_message(id=number, channel=channel) for number, channel in enumerate(channels, start=1)]
    assert not a_claim(*messages).is_room_only
