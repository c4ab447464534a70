"""Where the files of a model come from: its folder in a repository, or the request to load it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from nnhal_hosting.logs import get_logger
from nnhal_service.repository.names import is_file_name, is_version
from nnhal_service.serving.errors import ErrorKind, ServingError

_MAX_BYTES = 2**31 - 1
"""What one protobuf message or flatbuffer can hold, and so one model file."""
_log = get_logger(__name__)

Fingerprint = tuple[tuple[str | int, ...], ...]
"""What is different once a file has been."""


class ModelSource(Protocol):
    """The files of one model, by their names relative to its folder: ``config.pbtxt``, ``1/model.onnx``.

    Raises ServingError with NOT_FOUND for a file that is not there, and with other kinds for one that is of no use.
    The messages name files as the client knows them; where they lie is in the log.
    """

    def versions(self) -> list[int]:
        """The versions that have a folder, in order."""

    def files(self, folder: str) -> list[str]:
        """The names of the files in a folder, ``""`` for the model's own; none where there is no such folder."""

    def read(self, name: str) -> bytes:
        """A file's content."""

    def fingerprint(self, folder: str) -> Fingerprint:
        """Of the files in a folder."""


class FolderSource:
    """A model's folder. Symbolic links may lead anywhere in its repository, and not out of it."""

    def __init__(self, repository: Path, name: str) -> None:
        self._root = repository.resolve()
        self._folder = self._root / name

    def versions(self) -> list[int]:
        """See ModelSource."""
        return sorted(int(name) for name in self._names("", Path.is_dir) if is_version(name))

    def files(self, folder: str) -> list[str]:
        """See ModelSource."""
        return sorted(name for name in self._names(folder, Path.is_file) if is_file_name(name))

    def read(self, name: str) -> bytes:
        """See ModelSource."""
        path = self._resolve(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{name!r} is no regular file")
                if status.st_size > _MAX_BYTES:
                    message = f"{name!r} has {status.st_size} bytes, expected at most {_MAX_BYTES}"
                    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
                return file.read()
        except OSError as error:
            raise _unreadable(name, path, error) from error

    def fingerprint(self, folder: str) -> Fingerprint:
        """See ModelSource."""
        found = []
        for name in self.files(folder):
            try:
                status = (self._folder / folder / name).stat()
            except OSError:  # it has gone in the meantime, which is a difference too
                continue
            found.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    def _names(self, folder: str, wanted: Callable[[Path], bool]) -> list[str]:
        """What is in a folder, of the kind that is wanted."""
        try:
            return [path.name for path in self._resolve(folder).iterdir() if wanted(path)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unreadable(folder or "the model's folder", self._folder / folder, error) from error
        except ServingError as error:
            if error.kind == ErrorKind.NOT_FOUND:
                return []
            raise

    def _resolve(self, name: str) -> Path:
        path = self._folder / name
        try:
            resolved = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # a loop of links is one or the other
            raise _unreadable(name, path, error) from error
        if not resolved.is_relative_to(self._root):
            _log.error("a link leads out of its repository", path=str(path), to=str(resolved))
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{name or 'the folder'!r} leads out of the repository")
        return resolved


class GivenSource:
    """The files that came with the request: there are no others."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        """Raises INVALID_ARGUMENT for a name that is neither ``NAME`` nor ``FOLDER/NAME``."""
        for name in files:
            parts = name.split("/")
            if len(parts) > 2 or not all(is_file_name(part) for part in parts):
                raise ServingError(
                    ErrorKind.INVALID_ARGUMENT, f"file {name!r}: expected VERSION/NAME, such as 1/model.onnx"
                )
        self._files = dict(files)

    def versions(self) -> list[int]:
        """See ModelSource."""
        folders = {name.partition("/")[0] for name in self._files if "/" in name}
        return sorted(int(folder) for folder in folders if is_version(folder))

    def files(self, folder: str) -> list[str]:
        """See ModelSource."""
        parts = (name.rpartition("/") for name in self._files)
        return sorted(name for parent, _, name in parts if parent == folder)

    def read(self, name: str) -> bytes:
        """See ModelSource."""
        if name not in self._files:
            raise ServingError(ErrorKind.NOT_FOUND, f"there is no file {name!r}")
        return self._files[name]

    def fingerprint(self, folder: str) -> Fingerprint:
        """See ModelSource."""
        prefix = f"{folder}/" if folder else ""
        return tuple((name, sha256(self._files[prefix + name]).hexdigest()) for name in self.files(folder))


def _unreadable(name: str, path: Path, error: Exception) -> ServingError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ServingError(ErrorKind.NOT_FOUND, f"there is no file {name!r}")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "a loop of links"
    _log.error("a file of a repository cannot be read", path=str(path), reason=str(error))
    return ServingError(ErrorKind.INTERNAL, f"{name!r} cannot be read: {reason}")
