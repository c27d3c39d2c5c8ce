"""Rewrites errors of the API for the command line: options instead of fields, commands instead of routes."""

from typing import Final

from tinyagi.api.base import ID

_TERMS: Final = (
    ("Use ?messages=dead", "Add --messages dead"),
    ("?messages=move:", "--messages move:"),
    ("runAt", "--at"),
    ("either cron, to", "either --cron, to"),
    ("DELETE /api/queue/messages/", "tinyagi queue cancel "),
    ("/api/queue/processing lists", "`tinyagi queue status` lists"),
    ("/api/queue/agents lists", "`tinyagi agent list` lists"),
    ("/api/teams lists", "`tinyagi team list` lists"),
    ("/api/conversations lists", "`tinyagi trace` lists"),
    ("List the agents to see their names.", "`tinyagi agent list` lists them."),
    (f"String should match pattern '{ID}'", "use lowercase letters, digits, - and _"),
)


def in_cli_words(sentence: str) -> str:
    if sentence.startswith("label: "):
        sentence = f"--{sentence}"
    for api, cli in _TERMS:
        sentence = sentence.replace(api, cli)
    return sentence
