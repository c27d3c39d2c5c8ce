"""`tinyagi pairing`: who may write from chats."""

from typing import Annotated, Final

import typer

from tinyagi.cli.context import call_daemon
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import confirm, print_json, print_table, say, when

app = typer.Typer(help="Approve people who write from chats.", no_args_is_help=True)

HINT: Final = "People who write to a channel for the first time get a code. Approve it: tinyagi pairing approve CODE"


@app.command("list", epilog=examples("tinyagi pairing list"))
def list_pairings(ctx: typer.Context, as_json: Json = False) -> None:
    """List people who may write, and codes that wait for approval."""
    pairings = call_daemon(ctx, lambda client: client.pairing.all())
    if as_json:
        print_json(pairings)
        return
    waiting = [("waits", one.channel, one.sender, one.sender_id, one.code) for one in pairings.pending]
    approved = [("may write", one.channel, one.sender, one.sender_id, "") for one in pairings.approved]
    print_table(
        ("", "channel!", "name", "sender id!", "code!"), waiting + approved, empty=f"No people are paired. {HINT}"
    )


@app.command("pending", epilog=examples("tinyagi pairing pending --json"))
def pending(ctx: typer.Context, as_json: Json = False) -> None:
    """List codes that wait for approval."""
    people = call_daemon(ctx, lambda client: client.pairing.all()).pending
    if as_json:
        print_json(people)
        return
    rows = [(one.code, one.channel, one.sender, one.sender_id, when(one.expires_at)) for one in people]
    print_table(("code!", "channel!", "name", "sender id!", "expires"), rows, empty=f"No codes are pending. {HINT}")


@app.command("approved", epilog=examples("tinyagi pairing approved"))
def approved(ctx: typer.Context, as_json: Json = False) -> None:
    """List people who may write."""
    people = call_daemon(ctx, lambda client: client.pairing.all()).approved
    if as_json:
        print_json(people)
        return
    rows = [(one.channel, one.sender, one.sender_id, when(one.approved_at)) for one in people]
    print_table(("channel!", "name", "sender id!", "since"), rows, empty=f"No one may write yet. {HINT}")


@app.command("approve", epilog=examples("tinyagi pairing approve K7PX2MNQ"))
def approve(
    ctx: typer.Context,
    code: Annotated[str, typer.Argument(help="The code that the person got, in upper or lower case.")],
) -> None:
    """Allow the person with this code to write."""
    person = call_daemon(ctx, lambda client: client.pairing.approve(code))
    say(f"{person.sender} may now write on {person.channel}.")


@app.command("unpair", epilog=examples("tinyagi pairing unpair telegram 12345 --yes"))
def unpair(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="discord, telegram, whatsapp, …")],
    sender_id: Annotated[str, typer.Argument(help="As `tinyagi pairing approved` lists it.")],
    yes: Yes = False,
) -> None:
    """Revoke a person's permission to write."""
    confirm(f"Revoke the permission of {sender_id} on {channel} to write?", yes=yes)
    call_daemon(ctx, lambda client: client.pairing.unpair(channel, sender_id))
    say(f"{sender_id} on {channel} may no longer write.")
