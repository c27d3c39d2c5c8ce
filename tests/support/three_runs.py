"""Three rows of silver.runs: two runs of one agent and one of another."""

from datetime import date
from typing import Final

THREE_RUNS: Final = tuple(
    {"claim_id": f"c{number}", "agent": agent, "attempt": 1, "cost": 0.5, "ids": [number], "date": date(2026, 3, 14)}
    for number, agent in enumerate(("coder", "coder", "tester"))
)
