"""Front matter as people and agents write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.agents.workspace_files import KEYS, front_matter


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nname: Ada\nsummary: leads\n---\nname: no", {"name": "Ada", "summary": "leads"}),
        ("---\r\nname: Ada\r\n---\r\n", {"name": "Ada"}),
        ("---\nName:Ada\n---", {"name": "Ada"}),
        ("---\nname: a: b\n---", {"name": "a: b"}),
        ('---\nname: "a \'b\' \\"c\\""\n---', {"name": "a 'b' \"c\""}),
        ("---\nname: 'it''s'\n---", {"name": "it's"}),
        ("---\nname: '\n---", {"name": "'"}),
        ("---\nsummary: >\n  two\n  lines\n\nname: x\n---", {"summary": "two lines", "name": "x"}),
        ("---\nsummary: two\n  lines\n---", {"summary": "two lines"}),
        ("---\ntags:\n  - name: no\nname: x\n---", {"name": "x"}),
        ("---\nname:\nsummary: s\n---", {"summary": "s"}),
        ("---\nname: x\n...\nsummary: no", {"name": "x"}),
        ("---\nname: x\nsummary: never closed", {"name": "x", "summary": "never closed"}),
        ("---\n  indented first\nname: x\n---", {"name": "x"}),
        ("---\nname x\n---", {}),
        ("\n---\nname: x\n---", {}),
        ("name: x", {}),
        ("----\nname: x\n----", {}),
        ("---", {}),
        ("", {}),
    ],
)
def test_known_keys_are_read(text: str, said: dict[str, str]) -> None:
    assert front_matter(text) == said


@given(st.text(alphabet="-.:>|'\"\\ \n\r\tnamesury\u2028"))
def test_any_text_can_be_parsed(text: str) -> None:
    said = front_matter("---\n" + text)

    assert said.keys() <= KEYS
    assert all(said.values())
