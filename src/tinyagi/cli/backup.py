"""`tinyagi backup`: creates, lists and restores backups of a home. The daemon may run during a backup."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import Installation, installation
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.pipeline import BUSY
from tinyagi.cli.terminal import confirm, console, note, print_json, print_table, say, when
from tinyagi.domain.texts import size_text

if TYPE_CHECKING:
    from tinyagi.backup.create import Created, OnStep
    from tinyagi.backup.listing import Listed
    from tinyagi.backup.manifest import BackupManifest
    from tinyagi.backup.restore import Restored
    from tinyagi.settings.home import Home

app = typer.Typer(help="Back up the whole home, even while it runs, and restore it.", no_args_is_help=True)


@app.command("create", epilog=examples("tinyagi backup create", "tinyagi backup create --lake --to /mnt/backups"))
def create(
    ctx: typer.Context,
    to: Annotated[Path | None, typer.Option("--to", help="A folder, or the file to write.")] = None,
    workspaces: Annotated[bool, typer.Option("--workspaces", help="Include the folders that agents work in.")] = False,
    lake: Annotated[bool, typer.Option("--lake", help="Include the lake.")] = False,
    as_json: Json = False,
) -> None:
    """Write the home into one archive. The daemon may keep running.

    The archive holds the database, settings with keys and tokens, attachments, chats and plugins. Keep it private.
    """
    import time

    from tinyagi.backup.create import create as make

    home = installation(ctx).home
    target = None if to is None else to.expanduser().absolute()
    with _lake_may_be_busy(), _bars() as step:
        done = make(
            home,
            to=target,
            with_workspaces=workspaces,
            with_lake=lake,
            now=time.time_ns() // 1_000_000,
            step=step,
        )
    if as_json:
        print_json({**_manifest_fields(done.manifest), **_created_fields(done)})
        return
    say(f"{done.path}  {size_text(done.size)}, {len(done.manifest.files)} files")
    for sentence in done.left_out:
        note(f"Left out: {sentence}")
    absent = [
        flag
        for flag, is_there in (("--workspaces", workspaces), ("--lake", lake or not home.lake.is_dir()))
        if not is_there
    ]
    if absent:
        note(f"Not included: {' and '.join(flag.removeprefix('--') for flag in absent)}; add {' '.join(absent)}.")


@app.command("list", epilog=examples("tinyagi backup list", "tinyagi backup list --json"))
def show_all(ctx: typer.Context, as_json: Json = False) -> None:
    """List the backups in the home's folder `backups`, newest first."""
    from tinyagi.backup.listing import list_backups

    found = list_backups(installation(ctx).home)
    if as_json:
        print_json([_listed_fields(one) for one in found])
        return
    print_table(
        ("name!", "?made!", "size#", "holds", "?version!"),
        [
            (
                one.path.name,
                when(one.created_at),
                size_text(one.size),
                _contents(one),
                "" if one.manifest is None else one.manifest.version,
            )
            for one in found
        ],
        empty="There is no backup yet. Make one: tinyagi backup create",
    )


@app.command("restore", epilog=examples("tinyagi backup restore tinyagi-20261118T031500Z.zip", "tinyagi backup list"))
def restore(
    ctx: typer.Context,
    archive: Annotated[str, typer.Argument(help="A file, or a name that `backup list` shows.")],
    to: Annotated[Path | None, typer.Option("--to", help="Another home; created if it does not exist.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Restore a home from a backup. The replaced files are kept. The daemon has to be stopped.

    The whole archive is checked before anything changes.
    """
    import time

    from tinyagi.backup.listing import find_backup
    from tinyagi.backup.restore import has_data
    from tinyagi.backup.restore import restore as put_back

    backup_home = installation(ctx).home
    home = backup_home if to is None else Installation(to).home
    source = find_backup(archive, backup_home, home)
    _refuse_while_running(home)
    if has_data(home):
        confirm(f"Replace {home.path} with {source.name}? The current files are kept.", yes=yes)
    with _locked(home), _lake_may_be_busy(), _bars() as step:
        done = put_back(source, home, now=time.time_ns() // 1_000_000, step=step)
    if as_json:
        print_json(_restored_fields(done))
        return
    _print_restored(done)


def _print_restored(done: "Restored") -> None:
    if done.manifest is None:
        say(f"{done.home.path} is as it was before the restore.")
    else:
        made = f"made {when(done.manifest.created_at)} by TinyAGI {done.manifest.version}"
        say(f"Restored {done.home.path} from {done.source.name} ({made}).")
    for sentence in done.notes:
        note(sentence)
    option = "" if done.home.path == Installation().home.path else f"--home '{done.home.path}' "
    if done.kept is not None:
        note(f"The previous files are in {done.kept}. To go back: tinyagi {option}backup restore {done.kept.name}")
    note(f"Start it: tinyagi {option}start")


def _refuse_while_running(home: "Home") -> None:
    """Refuse before the confirmation, which would be useless."""
    from tinyagi.daemon.pidfile import AlreadyRunning, already_running_message, find_settled_daemon

    daemon = find_settled_daemon(home)
    if daemon.is_up:
        raise AlreadyRunning(already_running_message(home, daemon))


@contextmanager
def _locked(home: "Home") -> "Iterator[None]":
    """Hold the home's lock; create the home if needed, and delete it again if it stays empty."""
    from importlib.metadata import version

    from tinyagi.daemon.pidfile import hold_pid_file
    from tinyagi.settings.errors import HomeUnusable
    from tinyagi.settings.home import PRIVATE

    is_new = not home.path.exists()
    try:
        home.path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(
            f"The home {home.path} cannot be created: {error}. Name another folder with --to."
        ) from error
    try:
        with hold_pid_file(home, version("tinyagi")):
            yield
    finally:
        if is_new:
            with suppress(OSError):
                home.path.rmdir()


@contextmanager
def _lake_may_be_busy() -> "Iterator[None]":
    from tinyagi.pipeline.errors import LakeBusy

    try:
        yield
    except LakeBusy as error:
        note(f"tinyagi: {error}")
        raise typer.Exit(BUSY) from error


@contextmanager
def _bars() -> "Iterator[OnStep]":
    """A progress bar per step; nothing when stderr is not a terminal."""
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

    screen = console(err=True)
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def step(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what)
            progress.update(tasks[what], completed=done, total=total or None)

        yield step


def _manifest_fields(manifest: "BackupManifest") -> dict[str, object]:
    return {
        "createdAt": manifest.created_at,
        "version": manifest.version,
        "schema": manifest.schema,
        "holds": manifest.holds,
        "files": len(manifest.files),
        "unpackedBytes": manifest.size,
    }


def _created_fields(done: "Created") -> dict[str, object]:
    return {"path": str(done.path), "bytes": done.size, "leftOut": list(done.left_out)}


def _listed_fields(one: "Listed") -> dict[str, object]:
    fields = {"name": one.path.name, "path": str(one.path), "kind": one.kind, "bytes": one.size}
    details = {"createdAt": one.created_at} if one.manifest is None else _manifest_fields(one.manifest)
    return {**fields, **details, "problem": one.problem}


def _restored_fields(done: "Restored") -> dict[str, object]:
    return {
        "home": str(done.home.path),
        "source": str(done.source),
        "kept": None if done.kept is None else str(done.kept),
        "notes": list(done.notes),
        **({} if done.manifest is None else _manifest_fields(done.manifest)),
    }


def _contents(one: "Listed") -> str:
    from tinyagi.backup.listing import MEANINGS

    if one.problem is not None:
        return "damaged, or not a backup"
    return MEANINGS[one.kind] if one.manifest is None else ", ".join(one.manifest.holds)
