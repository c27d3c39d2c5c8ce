"""Telegram counts texts in UTF-16 units: an emoji is two."""


def length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def clean(text: str) -> str:
    """The text without lone surrogates, NUL and carriage returns, which no message can carry; never longer than it."""
    valid = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return valid.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def without(text: str, start: int, size: int) -> str:
    """The text without `size` units from `start` on; around the gap one space remains."""
    units = text.encode("utf-16-le", "surrogatepass")
    before = units[: start * 2].decode("utf-16-le", "replace")
    after = units[(start + size) * 2 :].decode("utf-16-le", "replace")
    if before.endswith((" ", "\n")) or not before:
        after = after.lstrip(" ")
    return before + after


def part(text: str, start: int, size: int) -> str:
    """The `size` units from `start` on."""
    return text.encode("utf-16-le", "surrogatepass")[start * 2 : (start + size) * 2].decode("utf-16-le", "replace")
