"""`tinyagi plugin`: which plugins there are, and the beginning of a new one. Nothing of a plugin is run here."""

from typing import Annotated, Final

import typer

from tinyagi.cli.context import place_of
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Json, examples
from tinyagi.cli.screen import print_json, print_table, say
from tinyagi.domain.ids import is_valid_id

app = typer.Typer(help="List plugins; begin a new one.", no_args_is_help=True)

TEMPLATE: Final = '''\
"""{name}: say here in one line what this plugin does."""


def activate(ctx):
    """Called once, when the daemon starts. `ctx.home` is the home's folder."""
    ctx.log.info("{name} is here")
    # Called for every event of this type; "*" is all of them. See docs/reference/events.md.
    ctx.on("message_dead", lambda event: ctx.log.warning("gave up on %s", event.message_id))


def transform_incoming(text, ctx):
    """What an agent is told. `ctx.channel`, `ctx.sender` and `ctx.agent` say where it comes from and goes to."""
    return text


def transform_outgoing(text, ctx):
    """What a person reads. Return the text, or the text and metadata: (text, {{"parseMode": "HTML"}})."""
    return text
'''


@app.command("list", epilog=examples("tinyagi plugin list"))
def list_plugins(ctx: typer.Context, as_json: Json = False) -> None:
    """List the plugins of this home and of installed packages."""
    import logging  # noqa: PLC0415 - see cli.context

    from tinyagi.plugins.discovery import find  # noqa: PLC0415
    from tinyagi.settings.document import Document  # noqa: PLC0415
    from tinyagi.settings.model import PluginsSettings  # noqa: PLC0415

    home = place_of(ctx).home
    loaded = Document(home).read()
    settings = PluginsSettings() if loaded is None else loaded.settings.plugins
    # What is skipped and why is told on stderr.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    plugins = [
        {
            "name": plugin.name,
            "origin": plugin.origin,
            "enabled": settings.enabled and plugin.name not in settings.disabled,
        }
        for plugin in find(home.plugins, entry_points=True)
    ]
    if as_json:
        print_json(plugins)
        return
    print_table(
        ("plugin", "enabled", "from"),
        [(plugin["name"], plugin["enabled"], plugin["origin"]) for plugin in plugins],
        empty="There are no plugins. Begin one: tinyagi plugin new my-plugin",
    )


@app.command("new", epilog=examples("tinyagi plugin new my-plugin"))
def new_plugin(
    ctx: typer.Context, name: Annotated[str, typer.Argument(help="Small letters, digits, - and _.")]
) -> None:
    """Write the beginning of a plugin into the home; never overwrites one."""
    if not is_valid_id(name):
        raise WrongCall(f"{name!r} is no name for a plugin: use small letters, digits, - and _.")
    home = place_of(ctx).home
    home.prepare()
    file = home.plugins / name / "plugin.py"
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with file.open("x", encoding="utf-8") as new:
            new.write(TEMPLATE.format(name=name))
    except FileExistsError:
        raise WrongCall(f"{file} is there already; it is left as it is.") from None
    except OSError as error:
        raise WrongCall(f"{file} cannot be written: {error.strerror}.") from error
    say(f"{file}\nThe daemon loads it when it starts: tinyagi restart")
