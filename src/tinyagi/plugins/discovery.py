"""Finds plugins, in the home's folder and among installed packages, and imports them. Never runs one by itself."""

import hashlib
import importlib.metadata
import importlib.util
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final, Protocol

from tinyagi.domain.ids import is_valid_id

GROUP: Final = "tinyagi.plugins"
FILE: Final = "plugin.py"

_log: Final = logging.getLogger("tinyagi.plugins")


class Candidate(Protocol):
    """A plugin that was found and may be imported."""

    name: str
    origin: str
    sha256: str | None
    """Of its source; None before `load` has read it."""

    def load(self) -> object:
        """Import it: whatever its code does, happens here. Blocks."""


def find(folder: Path, *, entry_points: bool) -> tuple[Candidate, ...]:
    """Every plugin in the order of names; what cannot be one is skipped with a line in the log. Blocks."""
    found: dict[str, Candidate] = {}
    for candidate in (*_in_folder(folder), *(_installed() if entry_points else ())):
        if candidate.name in found:
            other = found[candidate.name].origin
            _log.warning("Plugin %s of %s is skipped: %s goes first.", candidate.name, candidate.origin, other)
        else:
            found[candidate.name] = candidate
    return tuple(found[name] for name in sorted(found))


def _in_folder(folder: Path) -> Iterator[Candidate]:
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
            _log.warning("Plugin %s is skipped: name it with small letters, digits, - and _.", path)
        elif not _holds_plugin(path):
            _log.warning("Plugin %s is skipped: it has no %s.", path, FILE)
        else:
            yield _FolderPlugin(path)


def _holds_plugin(folder: Path) -> bool:
    try:
        return (folder / FILE).is_file()
    except OSError:
        # A folder that may not be searched.
        return False


def _installed() -> Iterator[Candidate]:
    try:
        candidates = [_InstalledPlugin(entry) for entry in sorted(importlib.metadata.entry_points(group=GROUP))]
    except Exception:
        # Any installed package may hold broken metadata, and each breaks in its own way.
        _log.exception("No plugin is loaded from installed packages: their entry points cannot be read.")
        return
    for candidate in candidates:
        if is_valid_id(candidate.name):
            yield candidate
        else:
            _log.warning("Plugin %s is skipped: name it with small letters, digits, - and _.", candidate.origin)


class _FolderPlugin:
    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.origin = str(folder / FILE)
        self.sha256: str | None = None
        self._folder = folder

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
    """Runs the very bytes that were hashed, not a compilation from a cache."""

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

    def load(self) -> object:
        plugin = self._entry_point.load()
        file = getattr(sys.modules.get(self._entry_point.module), "__file__", None)
        if file is not None:
            self.sha256 = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return plugin


def _digest(folder: Path, source: bytes) -> str:
    """Hash every Python file of the plugin, one after the other in the order of their paths."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if parts == (FILE,):
            digest.update(source)
        elif not any(part.startswith(".") for part in parts):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _forget(module_name: str) -> None:
    # A list first: other threads import meanwhile.
    for name in list(sys.modules):
        if name == module_name or name.startswith(f"{module_name}."):
            sys.modules.pop(name, None)
