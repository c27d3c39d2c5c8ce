"""Printed query results: safe for a terminal and a spreadsheet, each under its question."""

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tinyagi.cli.pipeline_query import print_csv, statements_in


def printed(capsys: pytest.CaptureFixture[str], *cells: Any, is_safe: bool = True) -> list[str]:
    print_csv(tuple(f"c{at}" for at in range(len(cells))), [cells], is_safe=is_safe)
    _, row = csv.reader(io.StringIO(capsys.readouterr().out, newline=""))
    return row


@pytest.mark.parametrize(
    "text", ["=1+1", "+HYPERLINK()", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "＝1", '=HYPERLINK("x")']
)
def test_a_spreadsheet_formula_is_escaped(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert printed(capsys, text) == [f"'{text}"]
    assert printed(capsys, text, is_safe=False) == [text]


def test_numbers_stay_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    cells = (-5, -0.25, Decimal("-1.50"), "-5", "+3.2", "-1e-9", None, True)

    assert printed(capsys, *cells) == ["-5", "-0.25", "-1.50", "-5", "+3.2", "-1e-9", "", "True"]


def test_control_characters_are_removed_except_newlines_and_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = 'a\x1b[2J\x1b]0;t\x07 "b"\x9b\x7f\u202e,\tc\r\nd'

    assert printed(capsys, hostile) == ['a[2J]0;t "b",\tc\nd']
    assert printed(capsys, hostile, is_safe=False) == [hostile]


def test_column_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(("=1\x1b",), [], is_safe=True)

    assert capsys.readouterr().out.split() == ["'=1"]


def test_the_comment_above_a_statement_becomes_its_question(tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text(
        "-- About this file.\n\n-- 1. How many,\n--    and who?\nSELECT 1,\n-- not a question\n 2;\n\nSELECT ';'\n;\n"
    )

    assert [(one.question, one.sql) for one in statements_in(file)] == [
        ("1. How many,\nand who?", "SELECT 1,\n 2"),
        ("", "SELECT ';'"),
    ]
