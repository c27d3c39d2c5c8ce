"""What a run is told: the texts of its messages as one prompt."""

from collections.abc import Sequence

import msgspec

from tinyagi.domain.messages import Claim, Message


def prompt_of(claim: Claim, texts: Sequence[str]) -> str:
    """Join the messages' texts in order; `texts` are the messages as the plugins leave them."""
    told = [_with_files(message, text) for message, text in zip(claim.messages, texts, strict=True)]
    people = {(message.channel, message.sender) for message in claim.messages if not message.is_room_post}
    if len(people) > 1:
        # Only where several people share a run must each text say whose it is.
        told = [_with_sender(message, text) for message, text in zip(claim.messages, told, strict=True)]
    return _attempt_note(claim.attempt) + "\n\n".join(told)


def _with_files(message: Message, text: str) -> str:
    files = msgspec.json.decode(message.files, type=list[str]) if message.files else []
    missing = [f"[file: {path}]" for path in files if f"[file: {path}]" not in text]
    return "\n".join([text, *missing])


def _with_sender(message: Message, text: str) -> str:
    if message.is_room_post or message.from_agent is not None:
        return text
    return f"[From {message.sender} on {message.channel}]:\n{text}"


def _attempt_note(attempt: int) -> str:
    if attempt == 1:
        return ""
    return f"[This is attempt {attempt}: an earlier run of this message did not finish. See what is done already.]\n\n"
