"""Compilation caching: the files that hold the compilation of a step, and preparing a step with them.

The application's token is 32 bytes that identify its model. A device receives another token, which also identifies the
device, the options of the preparation, and the step. Files are never removed; the owner of the directory may do that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, NnhalError
from nnhal.private_folders import make_private_folder
from nnhal.remote import CompilationCache, RemotePreparedModel
from nnhal.types import (
    NO_DEADLINE,
    ErrorStatus,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    Model,
    NumberOfCacheFiles,
    Priority,
    TokenValuePair,
)
from nnhal_frontends.content import ModelContent
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Step
from nnhal_service.runtime.devices.fleet import FleetMember

_MODEL, _DATA = "1", "2"
_IN_WORDS = "in the words of the file"
"""The variant of a cache for a step in its source form."""
_FINAL = (
    ErrorStatus.DEVICE_UNAVAILABLE,
    ErrorStatus.MISSED_DEADLINE_PERSISTENT,
    ErrorStatus.MISSED_DEADLINE_TRANSIENT,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
)
"""Failures of a preparation that another model of the same step would not mend."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """The directory of compilations, and the application's token: 32 bytes that identify its model."""

    path: Path
    token: bytes

    def of_variant(self, name: str) -> CacheDirectory:
        """Return the directory with another token, for a model that the application's token does not distinguish."""
        return replace(self, token=_digest([self.token, name.encode()]))

    def of_content(self, content: ModelContent | memoryview) -> CacheDirectory:
        """Return the directory with a token that covers the model file: other users of it may choose equal tokens."""
        return self.of_variant(sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class PrepareConfig:
    """The options of a preparation."""

    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_ns: int = NO_DEADLINE
    hints: tuple[TokenValuePair, ...] = ()
    extension_names: tuple[ExtensionNameAndPrefix, ...] = ()
    unasked: bool = False
    """True if the device was not asked what it supports."""
    meanwhile: Callable[[], object] = lambda: None
    """What is done while a device prepares a model, which is released if that raises an NnhalError."""


def prepare_part(
    member: FleetMember,
    step: Step,
    cache: CacheDirectory | None,
    of_several: bool,
    config: PrepareConfig = PrepareConfig(),
    given: Callable[[Step], Model] = lambda step: step.source or step.model,
) -> RemotePreparedModel:
    """Prepare a step on a device: from the cache if possible, else from the model, which fills the cache.

    ``of_several`` says whether the plan has other steps. ``given`` returns the model that the device is given, in the
    words of the file if the step has a source form, and is called only if the step is not in the cache. A problem with
    the cache never fails the preparation. If the device cannot prepare the step in the words of the file, it is given
    the HAL's operations, as is another device that replaces the step's own. Raises as ``RemoteDevice.prepare_model``
    does.
    """
    if step.source is not None and step.device == member.name:
        try:
            return _prepare(member, step, cache and cache.of_variant(_IN_WORDS), of_several, config, given)
        except HalError as error:
            if error.status in _FINAL:
                raise
            _log.info("a step cannot be prepared as the file has it", device=member.name, reason=error.message)
    return _prepare(member, replace(step, source=None), cache, of_several, config, given)


def _prepare(
    member: FleetMember,
    step: Step,
    cache: CacheDirectory | None,
    of_several: bool,
    config: PrepareConfig,
    given: Callable[[Step], Model],
) -> RemotePreparedModel:
    remote, needed = member.remote, member.identity.cache_files
    entry, is_complete = CompilationCache(), False
    if cache is not None and needed != NumberOfCacheFiles():
        token = _token(member, step, cache, of_several, config)
        try:
            entry, is_complete = open_entry(cache.path, token, needed)
        except OSError as error:
            _log.warning("a compilation cannot be cached", device=member.name, reason=str(error))
    if is_complete:
        try:
            return remote.prepare_model_from_cache(entry, config.deadline_ns)
        except NnhalError as error:
            _log.info("a cached compilation cannot be used", device=member.name, reason=str(error))
    return remote.prepare_model(
        given(step),
        config.preference,
        config.priority,
        config.deadline_ns,
        config.hints,
        config.extension_names,
        entry,
        config.unasked,
        config.meanwhile,
    )


def has_entry(
    member: FleetMember, step: Step, cache: CacheDirectory, of_several: bool, config: PrepareConfig = PrepareConfig()
) -> bool:
    """True if there is an entry of a step: its device has prepared it before, and may be unable to use it by now."""
    if step.source is not None:
        cache = cache.of_variant(_IN_WORDS)
    token = _token(member, step, cache, of_several, config)
    files = [cache.path / name for name in _names(token, member.identity.cache_files)]
    try:
        sizes = [file.lstat().st_size for file in files]
    except OSError:
        return False
    return any(sizes)


def _token(member: FleetMember, step: Step, cache: CacheDirectory, of_several: bool, config: PrepareConfig) -> bytes:
    relaxed = (step.source or step.model).relax_computation_float32_to_float16
    return token_of(cache.token, member.name, member.version, config, step if of_several else None, relaxed)


def token_of(
    application: bytes, device: str, version: str, config: PrepareConfig, part: Step | None, relaxed: bool = False
) -> bytes:
    """The token of a compilation, 32 bytes. ``part`` is one of several steps, None if the step is the whole model.

    ``relaxed`` says whether its computation is, which the content of a file does not tell.
    """
    hints = sorted((hint.token, hint.value) for hint in config.hints)
    numbers = [(part.scope, operation) for part in ([] if part is None else [part]) for operation in part.operations]
    return _digest(
        [
            application,
            device.encode(),
            version.encode(),
            *_encoded([config.preference, config.priority, relaxed, len(hints), *(token for token, _ in hints)]),
            *(value for _, value in hints),
            *(entry.name.encode() for entry in config.extension_names),
            *_encoded([entry.prefix for entry in config.extension_names]),
            *_encoded([number for pair in numbers for number in pair]),
            *_encoded([] if part is None else part.carried),
        ]
    )


def file_names(token: bytes, kind: str, count: int) -> list[str]:
    """The names of the files of one kind: two letters for each byte of the token, low half first."""
    letters = string.ascii_uppercase
    name = "".join(letters[byte & 15] + letters[byte >> 4] for byte in token)
    return [f"{name}{kind}{index}" for index in range(count)]


def _names(token: bytes, needed: NumberOfCacheFiles) -> list[str]:
    return [*file_names(token, _MODEL, needed.num_model_cache), *file_names(token, _DATA, needed.num_data_cache)]


def open_entry(directory: Path, token: bytes, needed: NumberOfCacheFiles) -> tuple[CompilationCache, bool]:
    """Open the files of an entry, and say whether it may be complete; missing files and directories are created.

    It is incomplete if a file was missing, or if all are empty, which is how a device that caches nothing of a model
    leaves them. A file with another hard link, or a pipe, is created anew, and the content behind that link is left
    alone. Raises OSError, also if others own the directory or may write to it.
    """
    try:
        make_private_folder(directory)
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error)) from error
    model = [directory / name for name in file_names(token, _MODEL, needed.num_model_cache)]
    data = [directory / name for name in file_names(token, _DATA, needed.num_data_cache)]
    for path in (*model, *data):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if status.st_nlink > 1 or not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                path.unlink()
    try:
        entry = CompilationCache(_open(model, 0), _open(data, 0), token)
        return entry, any(os.fstat(file.fileno()).st_size for file in (*entry.model, *entry.data))
    except FileNotFoundError:
        return CompilationCache(_open(model, os.O_CREAT), _open(data, os.O_CREAT), token), False


def _open(paths: Sequence[Path], flags: int) -> tuple[Descriptor, ...]:
    flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return tuple(Descriptor(os.open(path, flags, 0o600)) for path in paths)


def _encoded(numbers: Sequence[int]) -> Iterator[bytes]:
    return (number.to_bytes(8, "little", signed=True) for number in numbers)


def _digest(fields: Sequence[bytes]) -> bytes:
    """A digest of the fields and their lengths, so that it is equal only if every field is."""
    digest = sha256()
    for field in fields:
        digest.update(len(field).to_bytes(8, "little"))
        digest.update(field)
    return digest.digest()
