"""`tinyagi settings`: reads, changes and removes settings, through the daemon when it runs, else in the file."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import edit_settings
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import WrongCall, confirm, note, print_json, print_table, read_stdin, say
from tinyagi.domain.errors import NotFound

if TYPE_CHECKING:
    from tinyagi.cli.settings_backend import SettingsBackend

app = typer.Typer(help="Read and change settings.", no_args_is_help=True)

Path = Annotated[
    str, typer.Argument(help='The dotted name, such as queue.attempts; put a part that contains dots in "quotes".')
]

_PART: Final = re.compile(r'"([^"]+)"|([^."]+)')
_PATH: Final = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


@app.command("get", epilog=examples("tinyagi settings get", "tinyagi settings get queue.attempts"))
def get(
    ctx: typer.Context,
    path: Annotated[
        str | None, typer.Argument(help="The dotted name; without it, everything that is set is shown.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a setting, a section with its defaults, or everything that is set. Secrets are masked."""
    parts = () if path is None else _parts(path)
    stored = edit_settings(ctx, lambda backend: backend.settings())
    everything = _effective(stored) if parts else stored
    found, effective = _lookup(stored, parts), _lookup(everything, parts)
    if effective is None:
        _check_exists(everything, parts)
    if as_json:
        print_json(effective if found is None else found)
    elif isinstance(effective, Mapping):
        rows = [
            (name, "" if value is None else _value_text(value), _origin(_lookup(stored, (*parts, *inner)), value))
            for inner, name, value in _flat(effective, parts)
        ]
        print_table(("setting!", "value", ""), rows, empty=f"Nothing is set in {path or 'the settings'}.")
    elif effective is None:
        note(f"{path} is not set.")
    else:
        say(_value_text(effective if found is None else found))
        if found is None:
            note(f"{path} is not set; this is the default.")


@app.command(
    "set",
    epilog=examples(
        "tinyagi settings set queue.attempts 8",
        "tinyagi settings set agents.coder.model opus",
        "tinyagi settings set models.openai.api_key - < key.txt",
    ),
)
def change(
    ctx: typer.Context,
    path: Path,
    value: Annotated[str, typer.Argument(help="JSON, else text; - reads it from stdin. An object is merged.")],
    as_text: Annotated[bool, typer.Option("--text", help="Treat the value as text, even if it is JSON.")] = False,
) -> None:
    """Change a setting. It is checked first; an invalid value changes nothing."""
    parts = _parts(path)
    text = read_stdin().rstrip("\r\n") if value == "-" else value
    parsed = text if as_text else _parsed(text)
    if parsed is None:
        raise WrongCall(f"null removes a setting: tinyagi settings unset {path}")
    _check_names(_patch(parts, parsed))

    async def put(backend: "SettingsBackend") -> tuple[object, tuple[str, ...]]:
        needs_restart = await backend.update(_patch(parts, parsed))
        return _lookup(await backend.settings(), parts), needs_restart

    stored, needs_restart = edit_settings(ctx, put)
    # Print the stored value, in which secrets are masked.
    say(f"{path} is now {_value_text(stored)}.")
    _note_restart(needs_restart)


@app.command("unset", epilog=examples("tinyagi settings unset queue.attempts"))
def unset(ctx: typer.Context, path: Path, yes: Yes = False) -> None:
    """Remove a setting, so that its default applies. Asks before it removes a whole section."""
    parts = _parts(path)
    stored = _lookup(edit_settings(ctx, lambda backend: backend.settings()), parts)
    if stored is None:
        _check_names(_patch(parts, {}))
        raise _not_set(parts)
    if isinstance(stored, Mapping):
        confirm(f"Remove {path} with everything in it?", yes=yes)
    needs_restart = edit_settings(ctx, lambda backend: backend.update(_patch(parts, None)))
    say(f"Removed {path}.")
    _note_restart(needs_restart)


def _check_exists(everything: object, parts: tuple[str, ...]) -> None:
    """Raise unless the name is a setting without a default."""
    _check_names(_patch(parts, {}))
    section = _lookup(everything, parts[:-1])
    if not isinstance(section, Mapping) or parts[-1] not in section:
        raise _not_set(parts)


def _check_names(patch: Mapping[str, object]) -> None:
    from tinyagi.settings.parse import unknown_name

    sentence = unknown_name(patch)
    if sentence is not None:
        raise WrongCall(sentence)


def _not_set(parts: tuple[str, ...]) -> NotFound:
    return NotFound(f"{_dotted(parts)} is not set. `tinyagi settings get` lists what is set.")


def _origin(stored: object, value: object) -> str:
    if stored is not None:
        return ""
    return "not set" if value is None else "default"


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _note_restart(needs_restart: tuple[str, ...]) -> None:
    if needs_restart:
        note(f"Restart the daemon for {', '.join(needs_restart)}: tinyagi restart")


def _parts(path: str) -> tuple[str, ...]:
    if _PATH.fullmatch(path) is None:
        raise WrongCall(f"{path!r} is not the name of a setting; use one like queue.attempts.")
    return tuple(quoted or plain for quoted, plain in _PART.findall(path))


def _parsed(text: str) -> object:
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed


def _patch(parts: tuple[str, ...], value: object) -> dict[str, object]:
    *sections, name = parts
    patch = {name: value}
    for section in reversed(sections):
        patch = {section: patch}
    return patch


def _lookup(settings: object, parts: tuple[str, ...]) -> object:
    for part in parts:
        settings = settings.get(part) if isinstance(settings, Mapping) else None
    return settings


def _effective(stored: Mapping[str, object]) -> object:
    """The settings with their defaults; the stored settings alone when this version cannot parse them."""
    from tinyagi.settings.environment import DEFAULT_PORT
    from tinyagi.settings.errors import InvalidSettings
    from tinyagi.settings.json_tree import merged
    from tinyagi.settings.parse import parse_settings
    from tinyagi.settings.secrets import without_masked

    try:
        # A masked secret may be invalid for its setting.
        defaults = parse_settings(without_masked(stored)).model_dump(mode="json")
    except InvalidSettings:
        return stored
    if defaults["server"]["port"] is None:
        defaults["server"]["port"] = DEFAULT_PORT
    return merged(defaults, stored)


def _flat(
    value: Mapping[str, object], prefix: tuple[str, ...], inner: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, object]]:
    """Yield every leaf of an object: its path in the object, its full dotted name, and its value."""
    for name, item in value.items():
        path = (*inner, name)
        if isinstance(item, Mapping) and item:
            yield from _flat(item, prefix, path)
        else:
            yield path, _dotted((*prefix, *path)), item


def _dotted(parts: tuple[str, ...]) -> str:
    return ".".join(f'"{part}"' if "." in part else part for part in parts)
