"""JSON merge patch (RFC 7386): objects merge, null removes, everything else replaces."""

from collections.abc import Mapping


def merged(stored: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Return the stored object with the patch applied; neither is changed, and names keep their order."""
    result = dict(stored)
    for name, value in patch.items():
        if value is None:
            # Where the file itself says null, a patch that says the same changes nothing.
            if result.get(name) is not None:
                del result[name]
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def changed_names(before: object, after: object, prefix: str) -> tuple[str, ...]:
    """Return the dotted names of what differs, beginning with the prefix."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return () if before == after else (prefix,)
    names = dict.fromkeys([*before, *after])
    return tuple(
        changed for name in names for changed in changed_names(before.get(name), after.get(name), f"{prefix}.{name}")
    )
