"""Loading backend files and registering their drivers. A file that cannot be used is only logged as a warning.

Foreign code may end or hold up its process, so that a file is loaded in a trial first (nnhal_devices.dynamic.trial).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from nnhal.errors import NnhalError
from nnhal_devices.driver import BACKEND_API_VERSION, Driver, DriverOptions
from nnhal_devices.dynamic.files import BackendFile, BackendFileKind, find_backend_files, missing_bytes
from nnhal_devices.dynamic.trial import SECONDS, TrialError, try_all
from nnhal_devices.registry import BackendRegistry, DriverFactory
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
C_API_VERSION = (1, 1)
"""Major and minor version of nnhal_backend.h, which backends in C are checked against."""
C_MEMBERS = ("GetBackendId", "GetVersion", "BackendFactory")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_MODULE_MEMBERS = ("BACKEND_ID", "API_VERSION", "create_backend")
_DRIVER_MEMBERS = sorted({*Driver.__annotations__, *(name for name in vars(Driver) if not name.startswith("_"))})


class BackendError(NnhalError):
    """A backend file cannot be used, or its factory creates no driver."""


class DynamicBackend(NamedTuple):
    """The driver of a backend file."""

    name: str
    factory: DriverFactory


def register_backends(
    directories: Iterable[Path], registry: BackendRegistry, wanted: str | None = None, seconds: float = SECONDS
) -> None:
    """Register the backend files of directories, each under its id, of those that ``wanted`` may be, or of all.

    Each is loaded in a process of its own, for at most ``seconds``, to learn its id; in this process only if its driver
    is created. None is looked at if another driver has the name, and those with other names in their files only if none
    that is named so has the id.
    """
    files = find_backend_files(directories)
    if wanted is not None and wanted in registry:
        return
    named = [file for file in files if file.name.module.split("_")[1] == wanted]
    for some in (named, [file for file in files if file not in named]):
        for file, name in zip(some, try_all([partial(_tried, file) for file in some], seconds), strict=True):
            try:
                if isinstance(name, TrialError):
                    raise name
                registry.register(name, partial(_created, file, seconds))
            except (TrialError, ValueError) as error:
                _log.warning("a backend file is not loaded", file=str(file.path), reason=str(error))
            else:
                _log.info("a backend file can be loaded", file=str(file.path), backend=name)
        if wanted is not None and wanted in registry:
            return


def _tried(file: BackendFile) -> str:
    """The id of a backend file. To be called in a process of its own. Raises BackendError."""
    try:
        return load_backend(file).name
    except BackendError as error:
        _log.debug("why a backend file is not loaded", file=str(file.path), exc_info=error)
        raise


def _created(file: BackendFile, seconds: float, options: DriverOptions) -> Driver:
    """Load a file, and create its driver. Raises BackendError if it makes none.

    A shared object, which may end its process, does so in another one first.
    """
    if file.name.kind is BackendFileKind.EXTENSION:
        (tried,) = try_all([lambda: bool(load_backend(file).factory(options))], seconds)
        if isinstance(tried, TrialError):
            words = str(tried)
            raise BackendError(words if str(file.path) in words else f"{file.path} makes no driver: {words}")
    return load_backend(file).factory(options)


def load_backend(file: BackendFile) -> DynamicBackend:
    """Run the file's module and check its members. Raises BackendError."""
    try:
        return _load(file)
    except BackendError:
        raise
    except BaseException as error:  # foreign code may even call sys.exit
        raise BackendError(_described(error)) from error


def is_compatible(version: tuple[int, int], ours: tuple[int, int] = BACKEND_API_VERSION) -> bool:
    """Return whether a backend for ``version`` of the interface works with ``ours``: same major, minor not newer."""
    return version[0] == ours[0] and version[1] <= ours[1]


def _load(file: BackendFile) -> DynamicBackend:
    if file.name.kind is BackendFileKind.EXTENSION:
        if missing := missing_bytes(file.path):
            raise BackendError(f"the file is cut short: {missing} bytes are missing")
        library = _linked(file.path)
        if library is not None and not hasattr(library, f"PyInit_{file.name.module}"):
            return _c_backend(library, file.path, file.name.module)
    name, module = _import(file)
    try:
        return _backend_of(module, file)
    except BaseException:
        sys.modules.pop(name, None)  # a refused module must not be found by imports
        raise


def _linked(path: Path) -> ctypes.CDLL | None:
    """The library; None if the linker refuses it, of which the import says what is wrong."""
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def _c_backend(library: ctypes.CDLL, path: Path, module: str) -> DynamicBackend:
    missing = [name for name in C_MEMBERS if not hasattr(library, name)]
    if missing:
        other = f" of a backend in C, and no PyInit_{module} of one in Python" if C_MEMBERS[0] in missing else ""
        raise BackendError(f"it has no {', '.join(missing)}{other}")
    major, minor = ctypes.c_uint32(), ctypes.c_uint32()
    library.GetVersion(ctypes.byref(major), ctypes.byref(minor))
    _require_compatible((major.value, minor.value), C_API_VERSION)
    library.GetBackendId.restype, library.BackendFactory.restype = ctypes.c_char_p, ctypes.c_void_p
    name = _require_id((library.GetBackendId() or b"").decode(errors="replace"), "GetBackendId returned")
    return DynamicBackend(name, _checked(partial(_c_driver, name, path, library.BackendFactory), path, C_MEMBERS[-1]))


def _c_driver(name: str, path: Path, factory: Callable[[], int | None], options: DriverOptions) -> Driver:
    from nnhal_devices.dynamic.c_driver import CDriver  # most processes serve no such driver

    return CDriver(name, path, factory, options)


def _backend_of(module: ModuleType, file: BackendFile) -> DynamicBackend:
    missing_members = [name for name in _MODULE_MEMBERS if not hasattr(module, name)]
    if missing_members:
        raise BackendError(f"it has no {', '.join(missing_members)}")
    name, version, factory = (getattr(module, name) for name in _MODULE_MEMBERS)
    name = _require_id(name, "BACKEND_ID is")
    _require_compatible(version)
    if not callable(factory):
        raise BackendError(f"create_backend is {factory!r}, expected a function of DriverOptions")
    return DynamicBackend(name, _checked(factory, file.path, _MODULE_MEMBERS[-1]))


def _require_id(name: object, what: str) -> str:
    """Return a backend's id, which becomes the name of a folder and of a section. Raises BackendError."""
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise BackendError(f"{what} {name!r}, expected letters, digits, _ . + and -, of which the first is no sign")
    return name


class _SourceLoader(SourceFileLoader):
    """Keeps no bytecode: files that differ only in their version would share it, and the directory is not ours."""

    def path_stats(self, path: object) -> dict[str, int]:
        raise OSError("no bytecode")


def _import(file: BackendFile) -> tuple[str, ModuleType]:
    """Run the module under a unique name; its last part must be the one that the linker's entry is named after."""
    place = blake2b(os.fsencode(file.path), digest_size=8).hexdigest()
    name = f"nnhal_backend_{place}.{file.name.module}"
    is_extension = file.name.kind is BackendFileKind.EXTENSION
    loader = (ExtensionFileLoader if is_extension else _SourceLoader)(name, str(file.path))
    spec = importlib.util.spec_from_loader(name, loader, origin=str(file.path))
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return name, module


def _require_compatible(version: object, ours: tuple[int, int] = BACKEND_API_VERSION) -> None:
    if not (
        isinstance(version, tuple) and len(version) == 2 and all(type(part) is int and part >= 0 for part in version)
    ):
        raise BackendError(f"API_VERSION is {version!r}, expected a tuple of major and minor version")
    if not is_compatible(version, ours):
        raise BackendError(f"it was made for backend API {version}, which is incompatible with {ours} here")


def _checked(factory: DriverFactory, path: Path, called: str) -> DriverFactory:
    """Wrap a factory, which the file has ``called`` so: it raises BackendError if it creates no driver."""

    def create(options: DriverOptions) -> Driver:
        try:
            driver = factory(options)
            missing = [name for name in _DRIVER_MEMBERS if not hasattr(driver, name)]
        except Exception as error:
            _log.debug("a backend creates no driver", file=str(path), exc_info=error)
            raise BackendError(f"{path}: {called} raised {_described(error)}") from error
        if missing:
            kind = type(driver).__name__
            raise BackendError(
                f"{path}: {called} returned a {kind}, which is no driver: it has no {', '.join(missing)}"
            )
        return driver

    return create


def _described(error: BaseException) -> str:
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
