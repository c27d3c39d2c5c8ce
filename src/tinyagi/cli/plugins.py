"""`tinyagi plugin`: lists plugins and creates new ones. Never runs a plugin's code."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon, installation
from tinyagi.cli.options import Json, examples
from tinyagi.cli.terminal import WrongCall, print_json, print_table, say
from tinyagi.domain.ids import is_valid_id

if TYPE_CHECKING:
    from tinyagi.plugins.discovery import FoundPlugin

app = typer.Typer(help="List plugins; create a new one.", no_args_is_help=True)

TEMPLATE: Final = '''\
"""{name}: describe in one line what this plugin does."""


def activate(ctx):
    """Called once, when the daemon starts. `ctx.home` is the home's folder."""
    ctx.log.info("{name} is active")
    # Called for every event of this type; "*" is all of them. See docs/reference/events.md.
    ctx.on("message_dead", lambda event: ctx.log.warning("gave up on %s", event.message_id))


def transform_incoming(text, ctx):
    """Return the text that the agent gets. See `ctx.channel`, `ctx.sender` and `ctx.agent`."""
    return text


def transform_outgoing(text, ctx):
    """Return the text that the person reads, or text and metadata: (text, {{"parseMode": "HTML"}})."""
    return text
'''


@app.command("list", epilog=examples("tinyagi plugin list", "tinyagi plugin list --json"))
def list_plugins(ctx: typer.Context, as_json: Json = False) -> None:
    """List the plugins of this home and of installed packages, each with its state.

    A running daemon reports which ones it has loaded. Without one, plugins are compiled and not run.
    """
    import logging

    from tinyagi.plugins.discovery import find_plugins
    from tinyagi.settings.model import PluginsSettings
    from tinyagi.settings.settings_file import SettingsFile

    home = installation(ctx).home
    loaded = SettingsFile(home).read()
    settings = PluginsSettings() if loaded is None else loaded.settings.plugins
    # Print warnings about skipped folders on stderr.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    errors = _errors_in_daemon(ctx)
    plugins = []
    for plugin in find_plugins(home.plugins, entry_points=True):
        is_disabled = not settings.enabled or plugin.name in settings.disabled
        state, reason = ("disabled", None) if is_disabled else _state(plugin, errors)
        enabled = state not in {"disabled", "broken"}
        plugins.append(
            {"name": plugin.name, "origin": plugin.origin, "enabled": enabled, "state": state, "reason": reason}
        )
    if as_json:
        print_json(plugins)
        return
    print_table(
        ("plugin", "state", "from"),
        [(one["name"], one["state"], one["origin"]) for one in plugins],
        empty="There are no plugins. Create one: tinyagi plugin new my-plugin",
    )
    for one in plugins:
        if one["reason"]:
            say(f"{one['name']}: {one['reason']}")


def _errors_in_daemon(ctx: typer.Context) -> dict[str, str | None] | None:
    """The daemon's plugins with their errors; None without a daemon that reports them."""
    from tinyagi.client.errors import NotFoundError, NotRunning

    try:
        return {plugin.name: plugin.error for plugin in call_daemon(ctx, lambda client: client.plugins())}
    except (NotRunning, NotFoundError):
        return None


def _state(plugin: "FoundPlugin", errors: dict[str, str | None] | None) -> tuple[str, str | None]:
    """The state to show, and the reason."""
    is_known = errors is not None and plugin.name in errors
    fault = errors[plugin.name] if errors is not None and is_known else plugin.fault()
    if fault is not None:
        return "broken", f"{fault}. Fix it, then: tinyagi restart"
    if errors is None:
        return "not checked", None
    return ("loaded", None) if is_known else ("not loaded", "The daemon has not loaded it yet: tinyagi restart")


@app.command("new", epilog=examples("tinyagi plugin new my-plugin"))
def new_plugin(
    ctx: typer.Context, name: Annotated[str, typer.Argument(help="Lowercase letters, digits, - and _.")]
) -> None:
    """Create a plugin in the home from a template; never overwrites one."""
    if not is_valid_id(name):
        raise WrongCall(f"{name!r} is not a plugin name: use lowercase letters, digits, - and _.")
    home = installation(ctx).home
    home.prepare()
    file = home.plugins / name / "plugin.py"
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with file.open("x", encoding="utf-8") as new:
            new.write(TEMPLATE.format(name=name))
    except FileExistsError:
        raise WrongCall(f"{file} already exists; it was not changed.") from None
    except OSError as error:
        raise WrongCall(f"{file} cannot be written: {error.strerror}.") from error
    say(f"{file}\nThe daemon loads it when it starts: tinyagi restart")
