"""The files of a model: from its folder in a repository, or from the request to load it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np

from nnhal.descriptor import Descriptor
from nnhal.external_data import external_locations, opened_external_data
from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal.memory import create_read_only
from nnhal_frontends.weights_pool import Weights, WeightsPool
from nnhal_hosting.logs import get_logger
from nnhal_service.repository.names import is_file_name, is_version
from nnhal_service.serving.errors import ErrorKind, ServingError

_log = get_logger(__name__)

Fingerprint = tuple[tuple[str | int, ...], ...]
"""A value that changes when a file does."""


class ModelSource(Protocol):
    """The files of one model, by their names relative to its folder: ``config.pbtxt``, ``1/model.onnx``.

    Raises ServingError: NOT_FOUND if a file does not exist, other kinds if it cannot be used. The messages name files
    as the client knows them; the log has their paths.
    """

    def versions(self) -> list[int]:
        """Return the versions that have a folder, in order."""

    def files(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, ``""`` for the model's own; none if the folder does not exist."""

    def read(self, name: str, most_bytes: int = MOST_MODEL_BYTES) -> bytes:
        """Return a file's content, of at most so many bytes."""

    def weights(self, name: str) -> Weights:
        """Return the files in which a model in ONNX has values, by its names for them; absent ones are left out."""

    def fingerprint(self, folder: str) -> Fingerprint:
        """Return the fingerprint of the files in a folder, and below it unless it is the model's own."""

    def path(self, name: str) -> str:
        """Return where a file lies, for operators; empty if it came with a request."""


class FolderSource:
    """A model's folder. Symbolic links may lead anywhere in its repository, but not out of it."""

    def __init__(self, repository: Path, name: str) -> None:
        self._root = repository.resolve()
        self._folder = self._root / name

    def versions(self) -> list[int]:
        return sorted(int(name) for name in self._names("", Path.is_dir) if is_version(name))

    def files(self, folder: str) -> list[str]:
        return sorted(name for name in self._names(folder, Path.is_file) if is_file_name(name))

    def read(self, name: str, most_bytes: int = MOST_MODEL_BYTES) -> bytes:
        path = self._resolve(name)
        try:
            return read_given_file(path, most_bytes, "a file of a model", follows=False, shown=repr(name))
        except ValueError as error:
            raise ServingError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
        except OSError as error:
            raise _unreadable(name, path, error) from error

    def weights(self, name: str) -> Weights:
        path, found = self._resolve(name), {}
        try:
            with opened_external_data(path) as files:
                for location, file in files.items():
                    self._require_inside(f"{name}, {location}", Path(f"/proc/self/fd/{file.fileno()}"))
                    size = os.fstat(file.fileno()).st_size
                    found[location] = WeightsPool(Descriptor(os.dup(file.fileno())), size, location)
        except ValueError as error:
            raise ServingError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
        except OSError as error:
            raise _unreadable(name, path, error) from error
        return found

    def fingerprint(self, folder: str) -> Fingerprint:
        found = []
        for name in self._all_names(folder):
            try:
                status = (self._folder / folder / name).stat()
            except OSError:  # it has been removed meanwhile, which is a change too
                continue
            found.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def _all_names(self, folder: str) -> list[str]:
        """The files in a folder, and below one of a version: a model in ONNX may have values there."""
        found, top, seen = self.files(folder), self._folder / folder, set[str]()
        if not folder:
            return found
        for place, folders, names in os.walk(top, followlinks=True):
            folders[:] = [name for name in folders if os.path.realpath(f"{place}/{name}") not in seen]
            seen.update(os.path.realpath(f"{place}/{name}") for name in folders)  # links may lead in a circle
            if place != str(top):
                found += [os.path.relpath(f"{place}/{name}", top) for name in names]
        return sorted(found)

    def _names(self, folder: str, wanted: Callable[[Path], bool]) -> list[str]:
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
        self._require_inside(name, resolved)
        return resolved

    def _require_inside(self, name: str, path: Path) -> None:
        """Raise INVALID_ARGUMENT if a file lies out of the repository, where a link may lead."""
        resolved = path.resolve()
        if not resolved.is_relative_to(self._root):
            _log.error("a link leads out of its repository", path=name, to=str(resolved))
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{name or 'the folder'!r} leads out of the repository")


class GivenSource:
    """The files that came with the request, and no others."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        """Raises INVALID_ARGUMENT if a name is neither ``NAME`` nor ``FOLDER/NAME``."""
        for name in files:
            parts = name.split("/")
            if len(parts) > 2 or not all(is_file_name(part) for part in parts):
                raise ServingError(
                    ErrorKind.INVALID_ARGUMENT, f"file {name!r}: expected VERSION/NAME, such as 1/model.onnx"
                )
        self._files = dict(files)

    def versions(self) -> list[int]:
        folders = {name.partition("/")[0] for name in self._files if "/" in name}
        return sorted(int(folder) for folder in folders if is_version(folder))

    def files(self, folder: str) -> list[str]:
        parts = (name.rpartition("/") for name in self._files)
        return sorted(name for parent, _, name in parts if parent == folder)

    def read(self, name: str, most_bytes: int = MOST_MODEL_BYTES) -> bytes:
        if name not in self._files:
            raise ServingError(ErrorKind.NOT_FOUND, f"there is no file {name!r}")
        content = self._files[name]
        if len(content) > most_bytes:
            message = f"{name!r}: got {len(content)} bytes, expected a file of a model of at most {most_bytes}"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        return content

    def weights(self, name: str) -> Weights:
        folder, found = name.rpartition("/")[0], {}
        for location, place in external_locations(self.read(name)).items():
            content = self._files.get(f"{folder}/{place}")
            if content:
                memory = create_read_only([(0, np.frombuffer(content, np.uint8))], len(content), "nnhal-weights")
                found[location] = WeightsPool(memory.descriptor, memory.size, location)
        return found

    def fingerprint(self, folder: str) -> Fingerprint:
        prefix = f"{folder}/" if folder else ""
        return tuple((name, sha256(self._files[prefix + name]).hexdigest()) for name in self.files(folder))

    def path(self, name: str) -> str:
        return ""


def _unreadable(name: str, path: Path, error: Exception) -> ServingError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ServingError(ErrorKind.NOT_FOUND, f"there is no file {name!r}")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "a loop of links"
    _log.error("a file of a repository cannot be read", path=str(path), reason=str(error))
    return ServingError(ErrorKind.INTERNAL, f"{name!r} cannot be read: {reason}")
