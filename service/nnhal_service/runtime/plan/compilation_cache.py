"""Compilation caching: which files a step's compilation is kept in, and preparing a step with them.

The application gives 32 bytes that stand for its model. A device is given others, which also stand for the device, for
what was asked of it, and for the part of the model that the step is. Nothing is ever removed from the directory: that
is for whoever has set it.
"""

from __future__ import annotations

import os
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.remote import CompilationCache, RemotePreparedModel
from nnhal.types import (
    NO_DEADLINE,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    NumberOfCacheFiles,
    Priority,
    TokenValuePair,
)
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Step
from nnhal_service.runtime.devices.fleet import FleetMember

_MODEL, _DATA = "1", "2"
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """Where compilations are kept, and the application's token: 32 bytes for the model that it loads."""

    path: Path
    token: bytes

    def of_variant(self, name: str) -> CacheDirectory:
        """For what the token alone does not tell apart: another model, or one whose operations have other numbers."""
        return replace(self, token=_digest([self.token, name.encode()]))

    def of_content(self, content: bytes) -> CacheDirectory:
        """For a model file, or what else makes a model: those who share the directory may share tokens too."""
        return self.of_variant(sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class PrepareConfig:
    """What is asked of a device besides the model."""

    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_ns: int = NO_DEADLINE
    hints: tuple[TokenValuePair, ...] = ()
    extension_names: tuple[ExtensionNameAndPrefix, ...] = ()


def prepare_part(
    member: FleetMember,
    step: Step,
    cache: CacheDirectory | None,
    of_several: bool,
    config: PrepareConfig = PrepareConfig(),
) -> RemotePreparedModel:
    """A step on a device: from the cache where it can be, else prepared, and kept if there is a cache.

    ``of_several`` says whether the plan has other steps. No problem with the cache is one of the preparation. Raises as
    ``RemoteDevice.prepare_model``.
    """
    remote, needed = member.remote, member.identity.cache_files
    entry, is_complete = CompilationCache(), False
    if cache is not None and needed != NumberOfCacheFiles():
        token = token_of(cache.token, member.name, member.version, config, step if of_several else None)
        try:
            entry, is_complete = open_entry(cache.path, token, needed)
        except OSError as error:
            _log.warning("a compilation cannot be cached", device=member.name, reason=str(error))
    if is_complete:
        try:
            return remote.prepare_model_from_cache(entry, config.deadline_ns)
        except NnhalError as error:
            _log.info("a compilation in the cache is of no use", device=member.name, reason=str(error))
    return remote.prepare_model(
        step.model,
        config.preference,
        config.priority,
        config.deadline_ns,
        config.hints,
        config.extension_names,
        cache=entry,
    )


def token_of(application: bytes, device: str, version: str, config: PrepareConfig, part: Step | None) -> bytes:
    """The token of a compilation, 32 bytes. ``part`` is a step of several, None where the step is the whole model."""
    hints = sorted((hint.token, hint.value) for hint in config.hints)
    numbers = [(part.scope, operation) for part in ([] if part is None else [part]) for operation in part.operations]
    return _digest(
        [
            application,
            device.encode(),
            version.encode(),
            *_encoded([config.preference, config.priority, len(hints), *(token for token, _ in hints)]),
            *(value for _, value in hints),
            *(entry.name.encode() for entry in config.extension_names),
            *_encoded([entry.prefix for entry in config.extension_names]),
            *_encoded([number for pair in numbers for number in pair]),
        ]
    )


def file_names(token: bytes, kind: str, count: int) -> list[str]:
    """The names of the files of one kind: two letters for each byte of the token, low half first."""
    letters = string.ascii_uppercase
    name = "".join(letters[byte & 15] + letters[byte >> 4] for byte in token)
    return [f"{name}{kind}{index}" for index in range(count)]


def open_entry(directory: Path, token: bytes, needed: NumberOfCacheFiles) -> tuple[CompilationCache, bool]:
    """The files of an entry, and whether all were there; those that were not are made, as is the directory.

    Raises OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    model = [directory / name for name in file_names(token, _MODEL, needed.num_model_cache)]
    data = [directory / name for name in file_names(token, _DATA, needed.num_data_cache)]
    try:
        return CompilationCache(_open(model, 0), _open(data, 0), token), True
    except FileNotFoundError:
        return CompilationCache(_open(model, os.O_CREAT), _open(data, os.O_CREAT), token), False


def _open(paths: Sequence[Path], flags: int) -> tuple[Descriptor, ...]:
    flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return tuple(Descriptor(os.open(path, flags, 0o600)) for path in paths)


def _encoded(numbers: Sequence[int]) -> Iterator[bytes]:
    return (number.to_bytes(8, "little", signed=True) for number in numbers)


def _digest(fields: Sequence[bytes]) -> bytes:
    """Over the fields with their lengths: the same only where all of them are."""
    digest = sha256()
    for field in fields:
        digest.update(len(field).to_bytes(8, "little"))
        digest.update(field)
    return digest.digest()
