"""What a plan says of one kind of things: how many come along, and what stays behind for which reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that stays behind, and in words why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of things: how many are taken over, how many are there already, and what stays behind."""

    name: str
    taken: int = 0
    there: int = 0
    skipped: tuple[Skipped, ...] = ()
    names: tuple[str, ...] = ()
    """Of what is taken over, where names say more than a number."""

    @property
    def is_empty(self) -> bool:
        return not (self.taken or self.there or self.skipped)
