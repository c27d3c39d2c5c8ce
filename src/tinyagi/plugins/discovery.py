"""Finds plugins in the home's folder and in installed packages, imports them, and reads their hooks. Calls no hook."""

import hashlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final, Protocol

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import is_valid_id
from tinyagi.plugins.specs import HOOKS

GROUP: Final = "tinyagi.plugins"
FILE: Final = "plugin.py"

_log: Final = logging.getLogger("tinyagi.plugins")

_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class FoundPlugin(Protocol):
    """A plugin that was found and can be imported."""

    name: str
    origin: str
    sha256: str | None
    """The hash of its source; None before `load`."""

    def fault(self) -> str | None:
        """Why it cannot be imported, checked without running it; None when no fault is found. Blocks."""

    def load(self) -> object:
        """Import it, which runs its code. Blocks."""


def find_plugins(folder: Path, *, entry_points: bool) -> tuple[FoundPlugin, ...]:
    """Every plugin in the order of names; invalid ones are skipped with a line in the log. Blocks."""
    found: dict[str, FoundPlugin] = {}
    for plugin in (*_in_folder(folder), *(_installed() if entry_points else ())):
        if plugin.name in found:
            other = found[plugin.name].origin
            _log.warning("Plugin %s of %s is skipped: %s takes precedence.", plugin.name, plugin.origin, other)
        else:
            found[plugin.name] = plugin
    return tuple(found[name] for name in sorted(found))


def _in_folder(folder: Path) -> Iterator[FoundPlugin]:
    try:
        entries = sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
    except OSError as error:
        _log.error("No plugin is loaded from %s: %s.", folder, error.strerror)
        return
    for path in entries:
        if path.name.startswith((".", "__")):
            continue
        if not is_valid_id(path.name):
            _log.warning("Plugin %s is skipped: name it with lowercase letters, digits, - and _.", path)
        elif not _holds_plugin(path):
            _log.warning("Plugin %s is skipped: it has no %s.", path, FILE)
        else:
            yield _FolderPlugin(path)


def _holds_plugin(folder: Path) -> bool:
    try:
        return (folder / FILE).is_file()
    except OSError:
        # The folder is not accessible.
        return False


def _installed() -> Iterator[FoundPlugin]:
    try:
        plugins = [_InstalledPlugin(entry) for entry in sorted(importlib.metadata.entry_points(group=GROUP))]
    except Exception:
        # Any installed package may have broken metadata, with any kind of error.
        _log.exception("No plugin is loaded from installed packages: their entry points cannot be read.")
        return
    for plugin in plugins:
        if is_valid_id(plugin.name):
            yield plugin
        else:
            _log.warning("Plugin %s is skipped: name it with lowercase letters, digits, - and _.", plugin.origin)


class _FolderPlugin:
    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.origin = str(folder / FILE)
        self.sha256: str | None = None
        self._folder = folder

    def fault(self) -> str | None:
        for path in sorted(self._folder.rglob("*.py")):
            try:
                compile(path.read_bytes(), path.name, "exec", dont_inherit=True)
            except Exception as error:
                # The compiler raises SyntaxError, ValueError, RecursionError or MemoryError; reading raises OSError.
                return f"{path.relative_to(self._folder)}: {type(error).__name__}: {error}"
        return None

    def load(self) -> object:
        source = (self._folder / FILE).read_bytes()
        self.sha256 = _digest(self._folder, source)
        module_name = f"tinyagi_plugin_{self.name}"
        spec = importlib.util.spec_from_file_location(
            module_name,
            self.origin,
            loader=_BytesLoader(module_name, self.origin, source),
            submodule_search_locations=[str(self._folder)],
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"{self.origin} cannot be imported.")
        _forget(module_name)
        module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            _forget(module_name)
            raise
        return module


class _BytesLoader(SourceFileLoader):
    """Runs exactly the bytes that were hashed, never cached bytecode."""

    def __init__(self, module_name: str, path: str, source: bytes) -> None:
        super().__init__(module_name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self.source_to_code(self._source, self.path)


class _InstalledPlugin:
    def __init__(self, entry_point: importlib.metadata.EntryPoint) -> None:
        package = entry_point.dist
        self.name = entry_point.name
        self.origin = f"{entry_point.value} ({package.name} {package.version})" if package else entry_point.value
        self.sha256: str | None = None
        self._entry_point = entry_point

    def fault(self) -> str | None:
        return None

    def load(self) -> object:
        plugin = self._entry_point.load()
        file = getattr(sys.modules.get(self._entry_point.module), "__file__", None)
        if file is not None:
            self.sha256 = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return plugin


def _digest(folder: Path, source: bytes) -> str:
    """Hash all Python files of the plugin, in the order of their paths."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if parts == (FILE,):
            digest.update(source)
        elif not any(part.startswith(".") for part in parts):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _forget(module_name: str) -> None:
    # Copy the keys: other threads may import meanwhile.
    for name in list(sys.modules):
        if name == module_name or name.startswith(f"{module_name}."):
            sys.modules.pop(name, None)


@dataclass(frozen=True, slots=True)
class Hook:
    """A plugin's function for one hook; it may omit parameters that it does not use."""

    function: Callable[..., object]
    accepts: tuple[str, ...]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, **values: object) -> object:
        return self.function(**{name: values[name] for name in self.accepts})


def hooks_of(plugin: object) -> Mapping[str, Hook]:
    """Return the plugin's hook functions by name; raise InvalidInput when one is invalid or there are none."""
    hooks = {name: _hook(plugin, name, expected) for name, expected in HOOKS.items() if hasattr(plugin, name)}
    if not hooks:
        raise InvalidInput(f"It defines none of the hooks: {', '.join(sorted(HOOKS))}.")
    return hooks


def _hook(plugin: object, name: str, expected: tuple[str, ...]) -> Hook:
    function = getattr(plugin, name)
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise InvalidInput(f"{name} is not a function; write def {name}({', '.join(expected)}).")
    return Hook(function, _accepted(function, expected))


def _accepted(function: Callable[..., object], expected: tuple[str, ...]) -> tuple[str, ...]:
    """The expected parameters that the function takes; raise InvalidInput when it needs another one."""
    signature = inspect.signature(function)
    accepts = []
    for name, parameter in signature.parameters.items():
        if name in expected and parameter.kind in _BY_NAME:
            accepts.append(name)
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in _VARIABLE:
            parameters = ", ".join(signature.parameters)
            raise InvalidInput(
                f"{function.__name__}({parameters}) has the wrong parameters; "
                f"write {function.__name__}({', '.join(expected)})."
            )
    return tuple(accepts)
