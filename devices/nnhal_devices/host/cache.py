"""Compilation caching: a prepared model in files that the client keeps.

The model-cache files hold the model, the data-cache files its constants. The first file begins with a header; its
digest, keyed with the client's token, covers the driver's version and every byte of every file. A file is read once,
wholly, and what is checked is what is used. A model from a cache is validated like any other: the token is no secret.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import structlog
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.codec import model_from_wire, model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    DataLocation,
    ExecutionPreference,
    Model,
    NumberOfCacheFiles,
    OperandLifeTime,
    Priority,
    Subgraph,
)
from nnhal.v1 import device_pb2, types_pb2
from nnhal_devices.driver import PrepareOptions

_log = structlog.get_logger(__name__)
TOKEN_BYTES = 32
_MAGIC = b"nnhal cache 1\0\0\0"
_DIGEST_BYTES = 32
_HEADER = struct.Struct(f"<{len(_MAGIC)}s{_DIGEST_BYTES}sQ")
"""The magic, the digest, and how many of the bytes that follow are the model; the rest are its constants."""
_MAX_FILE_BYTES = 1 << 32
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class CacheFiles:
    """The files of one entry, and the 32 bytes that name it."""

    model: tuple[Descriptor, ...] = ()
    data: tuple[Descriptor, ...] = ()
    token: bytes = bytes(TOKEN_BYTES)

    def match(self, needed: NumberOfCacheFiles) -> bool:
        """Whether they are as many as a device needs."""
        return (len(self.model), len(self.data)) == (needed.num_model_cache, needed.num_data_cache)


NO_CACHE = CacheFiles()


def save(files: CacheFiles, version: str, model: ResolvedModel, options: PrepareOptions) -> None:
    """Write a model. Whatever goes wrong is logged and leaves no valid entry; it is nothing to the preparation."""
    try:
        _save(files, version, model, options)
    except (OSError, ValueError) as error:
        _log.info("a compilation was not cached", reason=str(error))


def load(files: CacheFiles, version: str, deadline_ns: int) -> tuple[Model, PrepareOptions]:
    """Read a model, not validated yet. Raises GENERAL_FAILURE where the entry is not whole, or not this one."""
    contents = [_read(descriptor) for descriptor in (*files.model, *files.data)]
    if len(contents[0]) < _HEADER.size:
        general_failure(f"the first cache file has {len(contents[0])} bytes, expected at least {_HEADER.size}")
    magic, digest, length = _HEADER.unpack(contents[0][: _HEADER.size])
    contents[0] = contents[0][_HEADER.size :]
    if magic != _MAGIC or digest != _digest(files.token, version, length, contents):
        general_failure("the cache files do not hold what this driver saved under this token")
    stream = b"".join(contents)
    try:
        entry = device_pb2.PrepareModelRequest.FromString(stream[:length])
        model = model_from_wire(entry.model, _no_descriptor)
        options = PrepareOptions(ExecutionPreference(entry.preference), Priority(entry.priority), deadline_ns)
    except (DecodeError, HalError, ValueError) as error:  # only a forged entry gets here
        general_failure(f"the cache files hold no model: {error}")
    return replace(model, operand_values=stream[length:]), options


def _save(files: CacheFiles, version: str, model: ResolvedModel, options: PrepareOptions) -> None:
    descriptors = (*files.model, *files.data)
    for descriptor in descriptors:
        os.ftruncate(descriptor.fileno(), 0)
    constants = bytearray()
    main, *referenced = (
        _with_inline_constants(graph, values, constants)
        for graph, values in zip(model.subgraphs, model.constants, strict=True)
    )
    stripped = replace(model.model, main=main, referenced=tuple(referenced), operand_values=b"", pools=())
    structure = device_pb2.PrepareModelRequest(
        model=model_to_wire(stripped, _no_id),
        preference=types_pb2.ExecutionPreference.ValueType(options.preference),
        priority=types_pb2.Priority.ValueType(options.priority),
    ).SerializeToString()
    contents = _divided(structure, bytes(constants), len(files.model), len(files.data))
    for number, (descriptor, content) in enumerate(zip(descriptors, contents, strict=True)):
        _write(descriptor, content, 0 if number else _HEADER.size)
    # Last, so that what was interrupted is never valid.
    digest = _digest(files.token, version, len(structure), contents)
    _write(descriptors[0], _HEADER.pack(_MAGIC, digest, len(structure)), 0)


def _with_inline_constants(graph: Subgraph, values: Mapping[int, Array], constants: bytearray) -> Subgraph:
    """A subgraph whose constants lie in ``constants``, which grows by them."""
    operands = list(graph.operands)
    for index, value in values.items():
        constants.extend(bytes(-len(constants) % _ALIGNMENT))
        location = DataLocation(0, len(constants), value.nbytes)
        constants.extend(np.ascontiguousarray(value).tobytes())
        operands[index] = replace(operands[index], lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
    return replace(graph, operands=tuple(operands))


def _divided(structure: bytes, constants: bytes, model_files: int, data_files: int) -> list[bytes]:
    """What goes to each file; joined again, they are the structure and then the constants."""
    if not model_files or not data_files:
        return _pieces(structure + constants, model_files + data_files)
    return [*_pieces(structure, model_files), *_pieces(constants, data_files)]


def _pieces(content: bytes, count: int) -> list[bytes]:
    size = -(-len(content) // count)
    return [content[number * size : (number + 1) * size] for number in range(count)]


def _digest(token: bytes, version: str, length: int, contents: Sequence[bytes]) -> bytes:
    digest = hashlib.blake2b(key=token, digest_size=_DIGEST_BYTES)
    digest.update(struct.pack("<QQ", len(version.encode()), length))
    digest.update(version.encode())
    for content in contents:
        digest.update(struct.pack("<Q", len(content)))
        digest.update(content)
    return digest.digest()


def _write(descriptor: Descriptor, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        count = os.pwrite(descriptor.fileno(), view, offset)
        view, offset = view[count:], offset + count


def _read(descriptor: Descriptor) -> bytes:
    """The whole file, read once: it may change at any moment."""
    try:
        status = os.fstat(descriptor.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
            general_failure(f"a cache file is no regular file of at most {_MAX_FILE_BYTES} bytes")
        content = bytearray()
        while len(content) < status.st_size:
            piece = os.pread(descriptor.fileno(), status.st_size - len(content), len(content))
            if not piece:
                general_failure("a cache file was truncated while it was read")
            content += piece
    except OSError as error:
        general_failure(f"a cache file cannot be read: {error.strerror}")
    return bytes(content)


def _no_id(_: Descriptor) -> int:
    raise ValueError("a model without pools has no descriptor")


def _no_descriptor(number: int) -> Descriptor:
    raise ValueError(f"descriptor {number} in a cached model")
