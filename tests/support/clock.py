"""A clock that only a test advances."""

from datetime import timedelta

START = 1_800_000_000_000


class FakeClock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by // timedelta(milliseconds=1)
