"""Text from outside made fit for a database, a wire and a log line."""

from typing import Final

UNKNOWN_CHARACTER: Final = "\ufffd"


def clean(text: str) -> str:
    """Return the text as every store can hold it: halves of one character are joined, a lone half and NUL replaced."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", UNKNOWN_CHARACTER)


def one_line(text: str, longest: int = 300) -> str:
    """Return the text for a reason or a log: printable, on one line, cut with an ellipsis."""
    # Long before the cut, so that what is thrown away costs nothing.
    head = clean(text[: longest * 4])
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in head).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
