"""The archive: a ZIP file with a manifest. Files are streamed, never read into memory as a whole."""

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, Self

from tinyagi.backup.manifest import (
    ArchiveRefused,
    BackupError,
    BackupManifest,
    StoredFile,
    decode_manifest,
    encode_manifest,
)
from tinyagi.settings.home import make_private

MANIFEST: Final = "manifest.json"
LARGEST_MANIFEST: Final = 256 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_COMPRESSED: Final = (".parquet", ".zip", ".gz", ".zst", ".png", ".jpg", ".jpeg", ".mp4", ".pdf")
"""Compressing these again costs time and saves nothing."""

Advance = Callable[[int], None]
"""Called with the number of bytes just processed."""


class ArchiveWriter:
    """Adds files one by one and records them for the manifest."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True)
        self._advance = advance
        self.files: list[StoredFile] = []
        self.left_out: list[str] = []
        """Sentences about files that could not be read."""

    def add(self, name: str, path: Path) -> None:
        """Add the file in its current state; skip it when it no longer exists."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except PermissionError:
            self.left_out.append(f"{path} cannot be read: it belongs to another user.")
            return
        with os.fdopen(descriptor, "rb") as source:
            found = os.fstat(descriptor)
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_STORED if name.endswith(_COMPRESSED) else zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | 0o600) << 16
            digest, size = hashlib.sha256(), 0
            # The file may be growing, so its final size is unknown here.
            with self._zip.open(info, "w", force_zip64=True) as target:
                while chunk := source.read(_CHUNK):
                    target.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                    self._advance(len(chunk))
        mode, modified = stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime_ns // 1_000_000
        self.files.append(StoredFile(name, size, digest.hexdigest(), mode, modified))

    def add_all(self, files: Mapping[str, Path]) -> None:
        for name, path in files.items():
            self.add(name, path)

    def finish(self, manifest: BackupManifest) -> None:
        """Write the manifest and close the archive."""
        self._zip.writestr(MANIFEST, encode_manifest(manifest))
        self._zip.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Still open only after a failure; an open ZipFile would warn when it is garbage-collected.
        with suppress(OSError, ValueError):
            self._zip.close()


class ArchiveReader:
    """An archive with a checked manifest; each file is checked while it is unpacked."""

    def __init__(self, path: Path, packed: zipfile.ZipFile) -> None:
        self._path = path
        self._zip = packed
        self.manifest = self._read_manifest()
        self._check_entries()

    def read(self, name: str) -> bytes | None:
        """The content of a small file, or None when the archive does not contain it."""
        if not any(file.name == name for file in self.manifest.files):
            return None
        with self._damage():
            return self._zip.read(name)

    def unpack(self, place: Callable[[str], Path], advance: Advance) -> None:
        """Write every file, folder and link to its place, which must be new; raise ArchiveRefused for a wrong file."""
        with self._damage():
            for file in self.manifest.files:
                self._unpack(file, place(file.name), advance)
        for name in self.manifest.folders:
            make_private(place(name))
        # Links and modes after the files, so that no file is written through a link or into a read-only folder.
        for name, target in self.manifest.links.items():
            make_private(place(name).parent)
            place(name).symlink_to(target)
        for name in sorted(self.manifest.folders, reverse=True):
            place(name).chmod(self.manifest.folders[name])

    def _unpack(self, file: StoredFile, path: Path, advance: Advance) -> None:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        digest, size = hashlib.sha256(), 0
        with os.fdopen(descriptor, "wb") as target, self._zip.open(file.name) as source:
            # One byte beyond the size in the manifest is enough to detect a different file.
            while chunk := source.read(min(_CHUNK, file.size - size + 1)):
                size += len(chunk)
                if size > file.size:
                    break
                target.write(chunk)
                digest.update(chunk)
                advance(len(chunk))
        if size != file.size or digest.hexdigest() != file.sha256:
            raise ArchiveRefused(f"{self._path} is damaged: {file.name} does not match the list of contents.")
        path.chmod(file.mode)
        os.utime(path, ns=(file.modified * 1_000_000, file.modified * 1_000_000))

    def _read_manifest(self) -> BackupManifest:
        with self._damage():
            try:
                info = self._zip.getinfo(MANIFEST)
            except KeyError:
                raise ArchiveRefused(f"{self._path} is not a TinyAGI backup: it has no list of contents.") from None
            if info.file_size > LARGEST_MANIFEST:
                raise ArchiveRefused(f"{self._path} is not a TinyAGI backup: its list of contents is too long.")
            content = self._zip.read(info)
        return decode_manifest(content, str(self._path))

    def _check_entries(self) -> None:
        sizes = {file.name: file.size for file in self.manifest.files}
        infos = [info for info in self._zip.infolist() if info.filename != MANIFEST]
        if sorted(info.filename for info in infos) != sorted(sizes):
            raise ArchiveRefused(f"{self._path} is damaged: its files do not match its list of contents.")
        for info in infos:
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in {0, stat.S_IFREG} or info.file_size != sizes[info.filename]:
                raise ArchiveRefused(f"{self._path} is refused: {info.filename} does not match the list of contents.")

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Turn the ZIP library's errors about a damaged file into ArchiveRefused."""
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError) as error:
            raise ArchiveRefused(f"{self._path} is damaged ({error}). Restore another backup.") from error


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """Open the archive for reading; raise ArchiveRefused for a file that is not a backup or not safe to unpack."""
    try:
        packed = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise BackupError(f"There is no backup at {path}. `tinyagi backup list` lists the backups.") from None
    except (zipfile.BadZipFile, zlib.error, UnicodeError, NotImplementedError) as error:
        raise ArchiveRefused(
            f"{path} is not a TinyAGI backup, or it is damaged ({error}). `tinyagi backup list` lists the others."
        ) from error
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}.") from error
    with packed:
        yield ArchiveReader(path, packed)
