"""Markdown becomes Telegram's HTML."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.channels.telegram.entities import visible
from tinyagi.channels.telegram import utf16
from tinyagi.channels.telegram.formatting import to_html

MARKUP = st.lists(
    st.sampled_from(
        [
            *"*_~`[]()<>!|#-+>\\\n\t \"'&=.:/1ax",
            "**",
            "__",
            "~~",
            "```",
            "~~~",
            "](",
            "![",
            "https://x.y/_a_",
            "<b>",
            "</b>",
            "&lt;",
            "> ",
            "- ",
            "1. ",
            "|---|",
            "😀",
            "é",
            "\ud83d",
            "\x00",
            "\r\n",
        ]
    ),
    max_size=60,
).map("".join)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("plain", "plain"),
        ("a **bold** word", "a <b>bold</b> word"),
        ("a __bold__ word", "a <b>bold</b> word"),
        ("an *italic* and an _italic_ word", "an <i>italic</i> and an <i>italic</i> word"),
        ("***both***", "<i><b>both</b></i>"),
        ("**bold *and italic***", "<b>bold <i>and italic</i></b>"),
        ("~~gone~~, ~not~", "<s>gone</s>, ~not~"),
        ("这是**重要**的", "这是<b>重要</b>的"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("**open", "**open"),
        (r"\*not\* \_this\_", "*not* _this_"),
        ("`a < b && c`", "<code>a &lt; b &amp;&amp; c</code>"),
        ("`` a ` b ``", "<code>a ` b</code>"),
        ("`open **bold**", "`open <b>bold</b>"),
        ("**`code`**", "<b><code>code</code></b>"),
        ("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("https://x.y/a_b_c*d", "https://x.y/a_b_c*d"),
        ("**https://x.y/a**", "<b>https://x.y/a</b>"),
    ],
)
def test_words_are_formatted(markdown: str, html: str) -> None:
    assert to_html(markdown) == html


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("[a **b**](https://x.y/?a=1&b=2)", '<a href="https://x.y/?a=1&amp;b=2">a <b>b</b></a>'),
        ('[a](https://x.y "title")', '<a href="https://x.y">a</a>'),
        ("[a](https://x.y/w_(z))", '<a href="https://x.y/w_(z)">a</a>'),
        ("[a](<https://x.y/w z>)", "a (https://x.y/w z)"),
        ("[me](tg://user?id=7)", '<a href="tg://user?id=7">me</a>'),
        ("[mail](mailto:a@b.c)", '<a href="mailto:a@b.c">mail</a>'),
        ("<https://x.y>", '<a href="https://x.y">https://x.y</a>'),
        ("![a picture](https://x.y/z.png)", '<a href="https://x.y/z.png">a picture</a>'),
        ("[![alt](https://i.j)](https://x.y)", '<a href="https://x.y">alt</a>'),
        ("[](https://x.y)", '<a href="https://x.y">https://x.y</a>'),
        ("[file](src/a.py)", "file (src/a.py)"),
        ("[x](javascript:alert)", "x (javascript:alert)"),
        ("[x](file:///etc/passwd)", "x (file:///etc/passwd)"),
        ('[x](https://x.y/"><b>)', '[x](https://x.y/"&gt;&lt;b&gt;)'),
        ("[a]", "[a]"),
        ("*a [b*](https://x.y)", '*a <a href="https://x.y">b*</a>'),
    ],
)
def test_links_lead_only_to_known_schemes(markdown: str, html: str) -> None:
    assert to_html(markdown) == html


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("# A *big* **title** #", "<b>A <i>big</i> title</b>"),
        ("- a\n* b\n  + **c**", "• a\n• b\n  • <b>c</b>"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done"),
        ("1. a\n2) *b*", "1. a\n2) <i>b</i>"),
        ("> a\n> **b**\n\nc", "<blockquote>a\n<b>b</b></blockquote>\n\nc"),
        ("> a\n>> b", "<blockquote>a\nb</blockquote>"),
        (">     > a", "<blockquote>    &gt; a</blockquote>"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        (
            "```python\nif a < b:\n    pass\n```",
            '<pre><code class="language-python">if a &lt; b:\n    pass</code></pre>',
        ),
        ("```\n**a**\n```\nb", "<pre>**a**</pre>\nb"),
        ("````\n```\n````", "<pre>```</pre>"),
        ("~~~c++\nx\n~~~", '<pre><code class="language-c++">x</code></pre>'),
        ("a\n```sh\nnever closed", 'a\n<pre><code class="language-sh">never closed</code></pre>'),
        ("- x\n  ```\n  code\n    more\n  ```", "• x\n<pre>code\n  more</pre>"),
        ('```a"><b>\nx\n```', '<pre><code class="language-a">x</code></pre>'),
        ("| a | b |\n|---|---|\n| *1* | 2 |\nend", "<pre>| a | b |\n|---|---|\n| *1* | 2 |</pre>\nend"),
        ("*over\ntwo lines*", "<i>over\ntwo lines</i>"),
        ("*a\n\nb*", "*a\n\nb*"),
        ("a\r\nb", "a\nb"),
    ],
)
def test_blocks_stay_readable(markdown: str, html: str) -> None:
    assert to_html(markdown) == html


@pytest.mark.parametrize("markdown", ["```\n```", "# ", "[]()", "> ", "> # "])
def test_markup_without_words_is_shown_as_it_is(markdown: str) -> None:
    assert visible(to_html(markdown)) == markdown


@given(MARKUP)
@example("*a **b _c** d_ e*")
@example("[*a](https://x.y)*")
@example("> ```\n> x")
@example("**" * 500)
def test_any_markup_is_balanced_escaped_and_not_longer(markdown: str) -> None:
    assert utf16.length(visible(to_html(markdown))) <= utf16.length(markdown)


@given(st.text(st.characters(), max_size=300))
def test_any_text_is_balanced_escaped_and_not_longer(markdown: str) -> None:
    assert utf16.length(visible(to_html(markdown))) <= utf16.length(markdown)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1))
def test_words_are_never_changed(text: str) -> None:
    assert to_html(text) == text


@pytest.mark.parametrize(
    "sign", ["[", "![", "[a](", "`", "*", "**a_b~~", "> ", "# ", "|", "- ", "<", "\\", "``` `", "_ *", " "]
)
def test_a_hostile_text_takes_no_time(sign: str) -> None:
    hostile = (sign * 4_096)[:4_096]
    start = time.process_time()
    visible(to_html(hostile))
    assert time.process_time() - start < 1


@given(st.text(st.characters()))
def test_a_clean_text_has_an_encoding_and_is_not_longer(text: str) -> None:
    clean = utf16.clean(text)
    clean.encode()
    assert utf16.length(clean) <= utf16.length(text)


def test_the_signature_of_an_answer_is_no_list() -> None:
    assert to_html("Done.\n\n- [coder]") == "Done.\n\n- [coder]"
    assert to_html("- one\n- two") == "• one\n• two"
