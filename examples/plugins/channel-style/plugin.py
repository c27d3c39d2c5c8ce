"""Fits answers to where they are read: tells the agent what the channel can show, and the channel how to show it."""

from tinyagi.plugins.specs import HookContext

STYLES = {
    "telegram": "Answer in a few short paragraphs. *Bold* and `code` are shown, headings and tables are not.",
    "whatsapp": "Answer in a few short sentences of plain text.",
}
PARSE_MODES = {"telegram": "Markdown"}


async def transform_incoming(text: str, ctx: HookContext) -> str | None:
    if ctx.from_agent is not None or ctx.channel not in STYLES:
        return None
    return f"{text}\n\n({STYLES[ctx.channel]})"


async def transform_outgoing(text: str, ctx: HookContext) -> tuple[str, dict[str, str]]:
    if ctx.attempt > 1:
        text = f"{text}\n\n(This took {ctx.attempt} attempts.)"
    mode = PARSE_MODES.get(ctx.channel)
    return text, {"parseMode": mode} if mode else {}
