"""Tags: the original program's outputs, the further rules, and arbitrary text."""

import json
import re
from pathlib import Path
from typing import Final, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.tags import Tag, TagKind, _edited, mask_code, parse_tags, render_for_people, shared_context

MANY: Final = 100_000


class TagVector(TypedDict):
    id: str
    message: str


# "from" is a keyword, so this one cannot be a class.
TagCase = TypedDict(
    "TagCase",
    {
        "text": str,
        "from": str,
        "direct_tags": list[TagVector],
        "room_tags": list[TagVector],
        "shared_context": str,
        "readable": str,
    },
)


class Vectors(TypedDict):
    tag_cases: list[TagCase]


VECTORS: Vectors = json.loads((Path(__file__).parents[1] / "data" / "routing_vectors.json").read_text("utf-8"))

every_vector = pytest.mark.parametrize("case", VECTORS["tag_cases"], ids=lambda case: repr(case["text"][:60]))


def of_kind(tags: tuple[Tag, ...], kind: TagKind) -> list[TagVector]:
    return [{"id": tag.target, "message": tag.text} for tag in tags if tag.kind is kind]


def found(text: str) -> list[str]:
    """The tags in short: sign, target and text."""
    return [f"{tag.kind}{tag.target}: {tag.text}" for tag in parse_tags(text)]


@every_vector
def test_tags_are_found_as_in_the_original(case: TagCase) -> None:
    tags = parse_tags(case["text"])
    assert of_kind(tags, TagKind.DIRECT) == case["direct_tags"]
    assert of_kind(tags, TagKind.ROOM) == case["room_tags"]


@every_vector
def test_shared_context_is_as_in_the_original(case: TagCase) -> None:
    assert shared_context(case["text"], parse_tags(case["text"])) == case["shared_context"]


@every_vector
def test_direct_tags_are_shown_as_in_the_original(case: TagCase) -> None:
    text, tags = case["text"], [tag for tag in parse_tags(case["text"]) if tag.kind is TagKind.DIRECT]
    edits = [(tag.start, tag.end, f"@{case['from']} → @{tag.target}: {tag.text}") for tag in tags]

    assert _edited(text, edits) == case["readable"]


def test_a_tag_has_its_position_in_the_text() -> None:
    text = "hi [@coder: fix arr[0] ] and [#dev: done]"
    direct, room = parse_tags(text)
    assert direct == Tag(TagKind.DIRECT, "coder", "fix arr[0]", 3, 24)
    assert text[room.start : room.end] == "[#dev: done]"


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("[@a: never closed [@b: x]", ["@b: x"]),
        ("[@a: never closed\n[@b: x]\n[#c: y]", ["@b: x", "#c: y"]),
        ("[@a no colon [@b: x]", ["@b: x"]),
        ("[@a: one [ too many] [@b: x]", ["@b: x"]),
        ("[@a: x]] [@b: y]", ["@a: x", "@b: y"]),
        ("] [ [@a: x]", ["@a: x"]),
        ("[see [@a: x]]", ["@a: x"]),
        ("[@a: x", []),
        ("[@a", []),
        ("[@", []),
    ],
)
def test_an_unclosed_tag_does_not_swallow_the_ones_after_it(text: str, tags: list[str]) -> None:
    assert found(text) == tags


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("[#dev: fixed [@b: test it]]", ["#dev: fixed [@b: test it]", "@b: test it"]),
        ("[#dev: [@b: x] and [@c: y]] [@d: z]", ["#dev: [@b: x] and [@c: y]", "@b: x", "@c: y", "@d: z"]),
        ("[#dev: a [#docs: b [@c: x]]]", ["#dev: a [#docs: b [@c: x]]", "@c: x"]),
        ("[#dev: a [@b: x [@c: y]]]", ["#dev: a [@b: x [@c: y]]", "@b: x [@c: y]"]),
        ("[@b: tell [#dev: that [@c: x]]]", ["@b: tell [#dev: that [@c: x]]"]),
        ("[#dev: write `[@b: x]`]", ["#dev: write `[@b: x]`"]),
    ],
)
def test_a_direct_tag_in_a_room_post_counts_and_one_in_a_direct_tag_does_not(text: str, tags: list[str]) -> None:
    assert found(text) == tags


@pytest.mark.parametrize(
    "text",
    [
        "write `[@a: x]` to hand over",
        "write ``[@a: ` x]`` to hand over",
        "`over\ntwo lines [@a: x]`",
        "```\n[@a: x]\n```",
        "```text\n\n[@a: x]\n\n[@b: y]\n```",
        "~~~\n[@a: x]\n```\n[@b: y]\n~~~",
        "````\n```\n[@a: x]\n```\n````",
        "```\n[@a: x]\n`````",
        "  ```\n  [@a: x]\n  ```",
        "- ```\n  [@a: x]\n\n  ```",
        "1. ~~~\n   [@a: x]\n   ~~~",
        "> ```\n>\n> [@a: x]\n> ```",
        "```\r\n[@a: x]\r\n```\r\n",
        "```js [main.js]\n\n[@a: x]\n```",
        "text\n```\n[@a: x]\nlast line```",
        "```\nnever closed\n\n[@a: x]",
    ],
)
def test_tags_in_code_are_text(text: str) -> None:
    assert found(text) == []
    assert render_for_people(text, "me") == text


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("```\n[@a: x]\n```\n[@b: y]", ["@b: y"]),
        ("```\ncode\n``` [@a: x]\n[@b: y]", []),
        ("`code` [@a: x] `code`", ["@a: x"]),
        ("it's 5` long [@a: x]", ["@a: x"]),
        ("a ` b\n\n[@a: x] ` c", ["@a: x"]),
        ("a `` b ` [@a: x]", ["@a: x"]),
        ("see ```\ncode\n``` [@a: x]", ["@a: x"]),
        ("```one line``` [@a: x]", ["@a: x"]),
        ("~~~ wow ~~~ [@a: x]", ["@a: x"]),
        ("~~struck~~ [@a: x]", ["@a: x"]),
    ],
)
def test_tags_beside_code_are_tags(text: str, tags: list[str]) -> None:
    assert found(text) == tags


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("[@a: match `[` first] [@b: y]", ["@a: match `[` first", "@b: y"]),
        ("[@a: match `]` first] [@b: y]", ["@a: match `]` first", "@b: y"]),
        ("[@a: say `[@b: x]` to b]", ["@a: say `[@b: x]` to b"]),
        ("[@a: run\n```\narr[0\n\n]]]\n```\nplease]", ["@a: run\n```\narr[0\n\n]]]\n```\nplease"]),
        ("[@a: run\n```py\narr[0\n```]\n[@b: y]", ["@a: run\n```py\narr[0\n```", "@b: y"]),
        ("[@a: ```py\n\narr[0\n```]\n[@b: y]", ["@a: ```py\n\narr[0\n```", "@b: y"]),
        ("[@a: ```x[0``` please] [@b: y]", ["@a: ```x[0``` please", "@b: y"]),
        ("[@a: ``` never closed]\n[@b: y]", ["@a: ``` never closed", "@b: y"]),
        ("[@`a: b`: x]", []),
    ],
)
def test_brackets_in_code_do_not_count_towards_a_tags_end(text: str, tags: list[str]) -> None:
    assert found(text) == tags


def test_two_stray_backticks_do_not_merge_two_tags() -> None:
    assert found("[@a: the ` key]\n[@b: run `ls` now]") == ["@a: the ` key", "@b: run `ls` now"]
    assert found("[@a: the ` key] [@b: the ` again]") == ["@a: the ` key", "@b: the ` again"]


def test_masking_keeps_every_offset() -> None:
    assert mask_code("a `[` b\n~~~\n]\n~~~\nc") == "a ``` b\n`````````\nc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no tags ", "no tags "),
        ("Done. [@b: please check] [#dev: shipped] ", "Done. @a → @b: please check @a → #dev: shipped"),
        ("[@b,c:  x  ]y", "@a → @b,c: xy"),
        ("[#dev:  ]!", "@a → #dev: !"),
        ("[@b: ask [@c: to [#dev: tell] ] ]", "@a → @b: ask @c: to #dev: tell"),
        ("[@b: [@c: x]]", "@a → @b: @c: x"),
        ("[@b: use `[@c: x]`]", "@a → @b: use `[@c: x]`"),
    ],
)
def test_people_never_see_raw_tags(text: str, shown: str) -> None:
    assert render_for_people(text, "a") == shown


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "text",
    [
        "[@a:" * MANY,
        "[@a:" * MANY + "]" * MANY,
        "[@a: x]" * MANY,
        "[#a: [@b: x]]" * MANY,
        "[#a:" * MANY + "[@b: x]" * MANY + "]" * MANY,
        "[@" * MANY,
        "[@a" * MANY,
        "[" * MANY,
        "]" * MANY,
        "[@" + " " * MANY + ":",
        "[@a:" + " " * MANY,
        "[@a: `" * MANY,
        "[@a: ` ] `` [@b:" * MANY,
        "`" * MANY,
        "[@a: x]" + "` " * MANY,
        "[@a: x]" + "```x\n" * MANY,
        "[@a: x]" + "```\n" * MANY,
        "[@a: x]\n```\n" + "`" * MANY + "x",
        "[@a: x]\n```\n" + "```x" * MANY,
        "[@a: x]\n" + "~~~ \n" * MANY,
        "[@a: x]\n" + "- " * MANY,
        "[@a: x]\n" + "> \n" * MANY,
        "[@a: x]\n" + "\n" * MANY,
        "[@a: x]\n" + "[@a:" * MANY + "```",
        "[@a: " + "".join("`" * length + "]" for length in range(1, 400)) * 2 + "[@b: x]",
        "[@a: x]\n" + "".join("~" * length + "\n" for length in range(400, 3, -1)),
    ],
    ids=lambda text: repr(text[:24]),
)
def test_hostile_text_is_parsed_in_linear_time(text: str) -> None:
    tags = parse_tags(text)
    shared_context(text, tags)
    render_for_people(text, "me")


# The parser's special characters occur often enough to be adjacent.
any_text = st.text() | st.text(alphabet="[]@#:,`~ \nab")
plain_text = st.text(alphabet=st.characters(exclude_characters="[]`~", exclude_categories=["Cs"]))
written_tags = st.builds("[{}{}: {}]".format, st.sampled_from("@#"), st.sampled_from(["a", "b,c", "Dev"]), plain_text)


@given(any_text)
def test_tags_of_any_text_are_in_order_and_within_bounds(text: str) -> None:
    ends = {TagKind.DIRECT: 0, TagKind.ROOM: 0}
    start = -1
    for tag in parse_tags(text):
        assert start < tag.start
        assert ends[tag.kind] <= tag.start < tag.end <= len(text)
        assert text[tag.start : tag.start + 2] == f"[{tag.kind}"
        assert text[tag.end - 1] == "]"
        assert tag.text in text[tag.start : tag.end]
        assert tag.target == tag.target.strip() != ""
        start, ends[tag.kind] = tag.start, tag.end


@given(any_text)
def test_masking_any_text_keeps_its_length(text: str) -> None:
    masked = mask_code(text)
    assert len(masked) == len(text)
    assert all(new in {"`", old} for new, old in zip(masked, text, strict=True))


@given(any_text)
def test_text_without_tags_is_rendered_unchanged(text: str) -> None:
    tags = parse_tags(text)
    if not tags:
        assert shared_context(text, tags) == render_for_people(text, "me") == text


@given(st.text().map(lambda text: re.sub(r"[\[\]]", "", text)))
def test_text_without_brackets_has_no_tags(text: str) -> None:
    assert parse_tags(text) == ()


@given(any_text.map(lambda text: text.replace("`", "")), st.sampled_from(["```", "````", "`````"]))
def test_text_in_a_fence_has_no_tags(text: str, fence: str) -> None:
    assert parse_tags(f"{fence}\n{text}\n{fence}") == ()


@given(any_text.map(lambda text: re.sub(r"[`~\n\r]", "", text)), st.sampled_from(["`", "``", "```"]))
def test_text_in_a_code_span_has_no_tags(text: str, run: str) -> None:
    assert parse_tags(f"see {run} {text} {run}") == ()


@given(st.lists(plain_text | written_tags).map("".join))
def test_text_rendered_for_people_has_no_tags(text: str) -> None:
    assert parse_tags(render_for_people(text, "me")) == ()


@given(st.lists(plain_text | written_tags))
def test_every_written_tag_is_found(pieces: list[str]) -> None:
    assert len(parse_tags("".join(pieces))) == sum(piece.startswith("[") for piece in pieces)
