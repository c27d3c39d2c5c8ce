"""Lanes under a person's or a budget's hand: pause, resume, hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinyagi.domain.events import LanePaused, LaneResumed
from tinyagi.domain.ids import AgentId
from tinyagi.store.sqlite.operations.finish import hold
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class HoldRequest:
    agent: AgentId
    until: int
    reason: str


def pause(tx: Transaction, agents: Sequence[AgentId]) -> list[bool]:
    """True for each lane that was not paused before."""
    changed = []
    for agent in agents:
        changed.append(tx.change("pause_lane", (agent,)))
        if changed[-1]:
            tx.record_alone(LanePaused(), agent)
    return changed


def resume(tx: Transaction, agents: Sequence[AgentId]) -> list[bool]:
    """True for each lane that was paused or held before."""
    changed = []
    for agent in agents:
        changed.append(tx.change("resume_lane", (agent,)))
        if changed[-1]:
            tx.record_alone(LaneResumed(), agent)
    return changed


def hold_lanes(tx: Transaction, requests: Sequence[HoldRequest]) -> list[None]:
    """Hold each lane until its instant; 0 lifts the hold."""
    for request in requests:
        hold(tx, request.agent, request.until, request.reason, 0)
    return [None] * len(requests)
