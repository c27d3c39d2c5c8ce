"""Routing: the original program's outputs, and the further rules for messages and answers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.routing import (
    MAX_POSTS,
    Agent,
    Mention,
    Post,
    Roster,
    Route,
    Team,
    address_warning,
    fan_out,
    mentions,
    prompt_from_room,
    prompt_from_teammate,
    room_posts,
    room_posts_of_answer,
    route,
    without_prefix,
)


class AgentVector(TypedDict):
    name: str


class TeamVector(TypedDict):
    name: str
    agents: list[str]
    leader_agent: str


class MentionCase(TypedDict):
    teammateId: str
    message: str


class PostCase(TypedDict):
    teamId: str
    message: str


# "from" is a keyword, so this one cannot be a class.
TagCase = TypedDict(
    "TagCase", {"text": str, "from": str, "team": str, "mentions": list[MentionCase], "rooms": list[PostCase]}
)


class RouteCase(TypedDict):
    text: str
    agentId: str
    message: str
    isTeam: NotRequired[bool]


class Vectors(TypedDict):
    agents: dict[str, AgentVector]
    teams: dict[str, TeamVector]
    tag_cases: list[TagCase]
    route_cases: list[RouteCase]


VECTORS: Vectors = json.loads((Path(__file__).parents[1] / "data" / "routing_vectors.json").read_text("utf-8"))

CODER, REVIEWER, TESTER, WRITER, DEFAULT = (
    AgentId(name) for name in ("coder", "reviewer", "tester", "writer", "tinyagi")
)
DEV, DOCS = TeamId("dev"), TeamId("docs")

ROSTER: Final = Roster(
    agents={AgentId(id_): Agent(AgentId(id_), agent["name"]) for id_, agent in VECTORS["agents"].items()},
    teams={
        TeamId(id_): Team(
            TeamId(id_),
            team["name"],
            tuple(AgentId(member) for member in team["agents"]),
            AgentId(team["leader_agent"]),
        )
        for id_, team in VECTORS["teams"].items()
    },
    default=DEFAULT,
)


def case_id(case: TagCase | RouteCase) -> str:
    return repr(case["text"][:60])


@pytest.mark.parametrize("case", VECTORS["route_cases"], ids=case_id)
def test_a_prefix_routes_as_in_the_original(case: RouteCase) -> None:
    routed = route(case["text"], ROSTER)
    assert (routed.agent, routed.text) == (case["agentId"], case["message"])
    assert (routed.team is not None) == case.get("isTeam", False)


@pytest.mark.parametrize("case", VECTORS["tag_cases"], ids=case_id)
def test_an_answer_is_handed_over_as_in_the_original(case: TagCase) -> None:
    given_over = mentions(case["text"], AgentId(case["from"]), ROSTER.teams[TeamId(case["team"])])
    assert [{"teammateId": handoff.to, "message": handoff.text} for handoff in given_over] == case["mentions"]


@pytest.mark.parametrize("case", VECTORS["tag_cases"], ids=case_id)
def test_an_answer_is_posted_to_rooms_as_in_the_original(case: TagCase) -> None:
    posts = room_posts_of_answer(case["text"], AgentId(case["from"]), ROSTER)
    assert [{"teamId": post.team, "message": post.text} for post in posts] == case["rooms"]


def test_a_team_prefix_routes_to_the_leader_with_the_team() -> None:
    assert route("@docs explain", ROSTER) == Route(WRITER, DOCS, "explain")


def test_an_id_wins_over_a_display_name() -> None:
    roster = Roster(
        agents={AgentId("a"): Agent(AgentId("a"), "B"), AgentId("b"): Agent(AgentId("b"), "team")},
        teams={TeamId("team"): Team(TeamId("team"), "Crew", (AgentId("a"),), AgentId("a"))},
        default=AgentId("a"),
    )
    assert route("@b x", roster) == Route(AgentId("b"), None, "x")
    assert route("@team x", roster) == Route(AgentId("a"), TeamId("team"), "x")
    assert route("@CREW x", roster) == Route(AgentId("a"), TeamId("team"), "x")


def test_without_a_known_prefix_the_sticky_agent_gets_the_text_unchanged() -> None:
    assert route("hello", ROSTER, WRITER) == Route(WRITER, None, "hello")
    assert route("@ghost hello", ROSTER, WRITER) == Route(WRITER, None, "@ghost hello")
    assert route("@coder hello", ROSTER, WRITER) == Route(CODER, None, "hello")


def test_a_deleted_sticky_agent_is_replaced_by_the_default() -> None:
    assert route("hello", ROSTER, AgentId("gone")) == Route(DEFAULT, None, "hello")


def test_a_name_without_text_is_not_a_prefix() -> None:
    assert route("@coder", ROSTER) == Route(DEFAULT, None, "@coder")


def test_a_prefix_wins_over_tags() -> None:
    text = "@coder ask [@reviewer: x]"
    assert fan_out(text, ROSTER) == (Route(CODER, None, text),)


@pytest.mark.parametrize(
    ("text", "agent", "prompt"),
    [
        ("@coder go", CODER, "go"),
        ("@Dev go", CODER, "go"),
        ("@writer go", CODER, "@writer go"),
        ("@ghost go", CODER, "@ghost go"),
        ("go @coder", CODER, "go @coder"),
        ("@coder", CODER, "@coder"),
    ],
)
def test_the_prefix_is_removed_only_for_the_agent_it_names(text: str, agent: AgentId, prompt: str) -> None:
    assert without_prefix(text, agent, ROSTER) == prompt


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("@nobody hello", 'There is no agent or team "nobody"; the message went to @tinyagi.'),
        ("@codr hello", 'There is no agent or team "codr"; the message went to @tinyagi. Did you mean @coder?'),
        ("@Docz, hello", 'There is no agent or team "Docz"; the message went to @tinyagi. Did you mean @docs?'),
        ("@nobody", 'There is no agent or team "nobody"; the message went to @tinyagi.'),
        ("@coder: hello", 'The message went to @tinyagi. Write "@coder " instead of "@coder:" to reach @coder.'),
        ("#dev hello", 'The message went to @tinyagi. Write "@dev " instead of "#dev" to reach @dev.'),
        ("@dev", 'The message went to @tinyagi. Write what to do after "@dev".'),
    ],
)
def test_an_unusable_prefix_gives_a_warning(text: str, warning: str) -> None:
    assert address_warning(text, fan_out(text, ROSTER), ROSTER) == warning


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "@coder hello",
        "@Code hello",
        "@dev hello",
        "@ 5 pm",
        "# A heading",
        "#hashtag and more",
        "@5pm",
        "ada@example.org wrote",
        "@example.org is down",
        "@ada@example.org wrote",
        "@@ -1,2 +1,2 @@",
        "@" + "a" * 100_000,
    ],
)
def test_ordinary_text_gives_no_warning(text: str) -> None:
    roster = replace(ROSTER, agents={**ROSTER.agents, AgentId("code"): Agent(AgentId("code"), "Code")})
    assert address_warning(text, fan_out(text, roster), roster) is None


def test_each_tag_gets_a_message_with_the_shared_context() -> None:
    assert fan_out("Friday. [@coder: build] [@docs: explain]", ROSTER) == (
        Route(CODER, None, "Friday.\n\n------\n\nDirected to you:\nbuild"),
        Route(WRITER, DOCS, "Friday.\n\n------\n\nDirected to you:\nexplain"),
    )


def test_a_comma_list_reaches_each_target_once() -> None:
    assert fan_out("[@coder, QA ,coder,,ghost: go]", ROSTER) == (Route(CODER, None, "go"), Route(TESTER, None, "go"))


def test_a_tag_may_use_a_display_name_of_several_words() -> None:
    assert fan_out("[@code assistant: go]", ROSTER) == (Route(CODER, None, "go"),)


def test_two_tags_for_one_target_are_joined() -> None:
    assert fan_out("[@coder: one] [@writer: two] [@Coder: three]", ROSTER) == (
        Route(CODER, None, "one\n\nthree"),
        Route(WRITER, None, "two"),
    )


def test_an_agent_and_the_team_it_leads_are_two_targets() -> None:
    assert fan_out("[@coder: one] [@dev: two]", ROSTER) == (Route(CODER, None, "one"), Route(CODER, DEV, "two"))


def test_unknown_and_empty_targets_are_ignored() -> None:
    assert fan_out("[@ghost: x] [@writer: ] [@coder: y]", ROSTER) == (Route(CODER, None, "y"),)


def test_tags_after_an_unknown_prefix_are_routed() -> None:
    assert fan_out("@ghost [@coder: y]", ROSTER) == (Route(CODER, None, "@ghost\n\n------\n\nDirected to you:\ny"),)


@pytest.mark.parametrize("text", ["hi", " [@ghost: x] ", "[@coder: ]", "[#dev: x]", "`[@coder: x]`", "[@coder: x"])
def test_without_a_target_the_whole_text_goes_to_the_default(text: str) -> None:
    assert fan_out(text, ROSTER) == (Route(DEFAULT, None, text),)
    assert fan_out(text, ROSTER, WRITER) == (Route(WRITER, None, text),)


def test_people_may_post_to_any_room() -> None:
    assert room_posts("[#DEV: a] [#docs: b] [#dev: c] [#ghost: d] [#dev: ] [#dev,docs: e]", ROSTER) == (
        Post(DEV, "a"),
        Post(DOCS, "b"),
        Post(DEV, "c"),
    )


def test_agents_post_only_to_rooms_of_their_teams() -> None:
    text = "[#dev: a] [#docs: b]"
    assert room_posts_of_answer(text, CODER, ROSTER) == (Post(DEV, "a"),)
    assert room_posts_of_answer(text, DEFAULT, ROSTER) == ()


def test_two_tags_for_one_teammate_make_one_handoff() -> None:
    assert mentions("[@tester: one][@reviewer: two][@TESTER: three]", CODER, ROSTER.teams[DEV]) == (
        Mention(TESTER, "one\n\nthree"),
        Mention(REVIEWER, "two"),
    )


def test_only_teammates_get_handoffs() -> None:
    assert mentions("[@coder,writer,dev,ghost: x]", CODER, ROSTER.teams[DEV]) == ()


def test_an_empty_tag_is_no_handoff() -> None:
    assert mentions("Look. [@tester: ] [@reviewer:]", CODER, ROSTER.teams[DEV]) == ()


def test_a_tag_in_code_is_no_handoff() -> None:
    assert mentions("Write `[@tester: x]`.\n```\n[@tester: y]\n```", CODER, ROSTER.teams[DEV]) == ()


def test_a_prompt_names_its_sender() -> None:
    assert prompt_from_teammate(CODER, "x\ny") == "[Message from teammate @coder]:\nx\ny"
    assert prompt_from_room(DEV, CODER, "x") == "[Chat room #dev — @coder]:\nx"


any_text = st.text() | st.lists(
    st.sampled_from(["[@", "[#", "coder", "QA", "dev", ",", ":", "]", " ", "\n", "@", "`", "text"])
).map("".join)


@given(any_text)
def test_any_message_reaches_at_least_one_agent_and_each_target_once(text: str) -> None:
    routes = fan_out(text, ROSTER)
    targets = [(one.agent, one.team) for one in routes]
    assert targets
    assert len(set(targets)) == len(targets)
    assert all(agent in ROSTER.agents for agent, _ in targets)


@given(any_text, st.sampled_from([CODER, REVIEWER, TESTER]))
def test_any_answer_is_handed_to_each_teammate_at_most_once(text: str, sender: AgentId) -> None:
    receivers = [handoff.to for handoff in mentions(text, sender, ROSTER.teams[DEV])]
    assert len(set(receivers)) == len(receivers)
    assert set(receivers) <= set(ROSTER.teams[DEV].teammates_of(sender))


@given(any_text)
def test_fan_out_agrees_with_route_unless_tags_have_targets(text: str) -> None:
    routed = route(text, ROSTER)
    routes = fan_out(text, ROSTER)
    assert routes == (replace(routed, text=text),) or routed == Route(DEFAULT, None, text)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "text",
    ["@" * 100_000, "@a" + " " * 100_000, "[@" + "coder," * 100_000 + ": x]", "[@coder: x]" * 100_000],
    ids=lambda text: repr(text[:20]),
)
def test_hostile_text_is_routed_in_linear_time(text: str) -> None:
    fan_out(text, ROSTER)
    mentions(text, REVIEWER, ROSTER.teams[DEV])


def test_a_direct_tag_in_a_room_post_is_a_handoff_and_readable_text() -> None:
    text = "Done.\n\n[#dev: the parser is fixed [@tester: run the suite]]"

    assert room_posts_of_answer(text, CODER, ROSTER) == (Post(DEV, "the parser is fixed @tester: run the suite"),)
    (handed,) = mentions(text, CODER, ROSTER.teams[DEV])
    assert handed.to == TESTER
    assert handed.text.endswith("Directed to you:\nrun the suite")
    assert [routed.agent for routed in fan_out(text, ROSTER)] == [TESTER]


def test_room_posts_beyond_the_limit_are_joined_by_room() -> None:
    posts = room_posts("[#dev: x] " * 90 + "[#docs: y]", ROSTER)

    assert len(posts) == MAX_POSTS + 2
    assert posts[0] == Post(DEV, "x")
    assert posts[MAX_POSTS] == Post(DEV, "\n\n".join("x" * (90 - MAX_POSTS)))
    assert posts[-1] == Post(DOCS, "y")
