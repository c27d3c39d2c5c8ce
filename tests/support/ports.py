"""Ports for tests."""

import contextlib
import random
import socket
from typing import Final

_DICE: Final = random.SystemRandom()
"""Tests seed the usual dice alike in every worker, and all would choose the same ports."""


def free_port() -> int:
    """A port on loopback that is free now, outside the range from which the system takes ports for connections."""
    while True:
        port = _DICE.randrange(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
