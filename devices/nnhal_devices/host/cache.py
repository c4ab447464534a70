"""Compilation caching: a prepared model in files that the client keeps.

The model-cache files hold the model, the data-cache files its constants and what the driver's compiler made of it, if
the driver gives that. The first file begins with a header; its digest, keyed with the client's token, covers the
driver's version and every byte of every file. A file is read once, as
a whole: the bytes that are checked are the bytes that are used. A model from a cache is validated like any other, since
the token is no secret.
"""

from __future__ import annotations

import errno
import hmac
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.codec import model_from_wire, model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    CACHE_TOKEN_BYTES,
    DataLocation,
    ExecutionPreference,
    Model,
    NumberOfCacheFiles,
    OperandLifeTime,
    Priority,
    Subgraph,
)
from nnhal.v1 import device_pb2, types_pb2
from nnhal_devices.driver import CompiledWorkload, PrepareOptions, Workload
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
_MAGIC = b"nnhal cache 2\0\0\0"
_DIGEST_BYTES = 32
_HEADER = struct.Struct(f"<{len(_MAGIC)}s{_DIGEST_BYTES}sQQQ")
"""The magic, the digest, and the lengths of the model, of its artifact and of its constants in bytes."""
_MAX_BYTES = 1 << 32
"""The largest entry: reading one takes as much memory."""
_ALIGNMENT = 64


class EntryLengths(NamedTuple):
    """Of the parts of an entry, in bytes."""

    model: int
    artifact: int
    constants: int


_ORDER = (0, 2, 1)
"""The order of the parts in the files, as indexes of EntryLengths: the constants come before the artifact."""


@dataclass(frozen=True, slots=True)
class CacheFiles:
    """The files of one entry, and the 32 bytes that name it."""

    model: tuple[Descriptor, ...] = ()
    data: tuple[Descriptor, ...] = ()
    token: bytes = bytes(CACHE_TOKEN_BYTES)

    def match(self, needed: NumberOfCacheFiles) -> bool:
        """Whether the number of files is what a device needs."""
        return (len(self.model), len(self.data)) == (needed.num_model_cache, needed.num_data_cache)


NO_CACHE = CacheFiles()


def save(
    files: CacheFiles, version: str, model: ResolvedModel, options: PrepareOptions, workload: Workload | None = None
) -> None:
    """Write a model, with the artifact of its workload if it has one.

    A failure is logged and leaves no valid entry; the preparation does not fail with it.
    """
    try:
        artifact = workload.artifact() if isinstance(workload, CompiledWorkload) else b""
        _save(files, version, model, options, artifact)
    except Exception as error:
        _log.info("a compilation was not cached", reason=repr(error))


class EntryHeader(NamedTuple):
    """What the first file of an entry says of it."""

    digest: bytes
    lengths: EntryLengths
    sizes: list[int]
    """The bytes of each file."""

    @property
    def byte_size(self) -> int:
        """The bytes of all files."""
        return sum(self.sizes)


def read_header(files: CacheFiles) -> EntryHeader:
    """Read how long an entry is. Raises GENERAL_FAILURE if there is none, or the files have other lengths."""
    descriptors = (*files.model, *files.data)
    try:
        sizes = [_size(descriptor) for descriptor in descriptors]
        magic, digest, *numbers = _HEADER.unpack(_read(descriptors[0], 0, _HEADER.size))
    except OSError as error:
        general_failure(f"a cache file cannot be read: {error.strerror}")
    lengths = EntryLengths(*numbers)
    expected = _HEADER.size + sum(lengths)
    if magic != _MAGIC or sum(sizes) != expected or expected > _MAX_BYTES:
        general_failure(
            f"the cache files have {sum(sizes)} bytes, and no header of an entry as long, of at most {_MAX_BYTES} bytes"
        )
    return EntryHeader(digest, lengths, sizes)


def load(files: CacheFiles, header: EntryHeader, version: str, deadline_ns: int) -> tuple[Model, PrepareOptions]:
    """Read a model, not validated yet. Raises GENERAL_FAILURE if the entry is incomplete or another one."""
    digest, lengths, contents = header.digest, header.lengths, _contents(files, header)
    if digest != _digest(files.token, version, lengths, contents):
        general_failure("the cache files do not hold what this driver saved under this token")
    structure, constants, artifact = _parts(contents, lengths)
    try:
        entry = device_pb2.PrepareModelRequest.FromString(structure)
        model = model_from_wire(entry.model, _no_descriptor)
        options = PrepareOptions(ExecutionPreference(entry.preference), Priority(entry.priority), deadline_ns, artifact)
    except (DecodeError, HalError, ValueError) as error:  # only a forged entry gets here
        general_failure(f"the cache files hold no model: {error}")
    return replace(model, operand_values=constants), options


def _save(files: CacheFiles, version: str, model: ResolvedModel, options: PrepareOptions, artifact: bytes) -> None:
    descriptors = (*files.model, *files.data)
    _truncate(descriptors)
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
    lengths = EntryLengths(len(structure), len(artifact), len(constants))
    contents = _divided(structure, bytes(constants) + artifact, len(files.model), len(files.data))
    for number, (descriptor, content) in enumerate(zip(descriptors, contents, strict=True)):
        _write(descriptor, content, 0 if number else _HEADER.size)
    # Last, so that an interrupted save is never valid.
    digest = _digest(files.token, version, lengths, [[content] for content in contents])
    _write(descriptors[0], _HEADER.pack(_MAGIC, digest, *lengths), 0)


def _truncate(descriptors: Sequence[Descriptor]) -> None:
    """Empty every file that can be emptied, so that no earlier entry stays valid. Raises OSError after that."""
    failed = 0
    for descriptor in descriptors:
        try:
            os.ftruncate(descriptor.fileno(), 0)
        except OSError as error:  # kept by number: the error itself would hold this frame, and the frame the error
            failed = failed or error.errno or errno.EIO
    if failed:
        raise OSError(failed, os.strerror(failed))


def _with_inline_constants(graph: Subgraph, values: Mapping[int, Array], constants: bytearray) -> Subgraph:
    """Move a subgraph's constants to the end of ``constants``. Raises ValueError if that is too large."""
    operands = list(graph.operands)
    for index, value in values.items():
        constants.extend(bytes(-len(constants) % _ALIGNMENT))
        location = DataLocation(0, len(constants), value.nbytes)
        if len(constants) + value.nbytes > _MAX_BYTES:
            raise ValueError(f"constants of more than {_MAX_BYTES} bytes")
        constants.extend(np.ascontiguousarray(value).tobytes())
        operands[index] = replace(operands[index], lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
    return replace(graph, operands=tuple(operands))


def _divided(structure: bytes, values: bytes, model_files: int, data_files: int) -> list[bytes]:
    """Divide the content among the files. Joined again, it is the structure followed by the values."""
    if not model_files or not data_files:
        return _pieces(structure + values, model_files + data_files)
    return [*_pieces(structure, model_files), *_pieces(values, data_files)]


def _pieces(content: bytes, count: int) -> list[bytes]:
    size = -(-len(content) // count)
    return [content[number * size : (number + 1) * size] for number in range(count)]


def _cuts(header: EntryHeader) -> list[list[int]]:
    """Where each file's content, which begins at 0, is divided so that no piece is of two parts."""
    ends, cuts, start = list(accumulate(header.lengths[part] for part in _ORDER)), [], 0
    for number, size in enumerate(header.sizes):
        end = start + size - (0 if number else _HEADER.size)
        cuts.append([0, *(each - start for each in ends if start < each < end), end - start])
        start = end
    return cuts


def _parts(contents: Sequence[Sequence[bytes]], lengths: EntryLengths) -> list[bytes]:
    """The structure, the constants and the artifact; those that lie in one file are not copied."""
    pieces = [piece for content in contents for piece in content if piece]
    parts = []
    for length in (lengths[part] for part in _ORDER):
        mine, missing = [], length
        while missing > 0:
            mine.append(pieces.pop(0))
            missing -= len(mine[-1])
        parts.append(b"".join(mine))
    return parts


def _digest(token: bytes, version: str, lengths: EntryLengths, contents: Sequence[Sequence[bytes]]) -> bytes:
    digest = hmac.new(token, digestmod="sha256")  # many processors have instructions for it
    digest.update(struct.pack("<QQQQ", len(version.encode()), *lengths))
    digest.update(version.encode())
    for content in contents:
        digest.update(struct.pack("<Q", sum(map(len, content))))
        for piece in content:
            digest.update(piece)
    return digest.digest()


def _write(descriptor: Descriptor, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        count = os.pwrite(descriptor.fileno(), view, offset)
        view, offset = view[count:], offset + count


def _contents(files: CacheFiles, header: EntryHeader) -> list[list[bytes]]:
    """Read the content of each file behind the header, in pieces of one part each. Raises GENERAL_FAILURE.

    Every byte is read once, since files may change at any moment, and only as many as the header announces, since files
    may be as long as the file system allows.
    """
    descriptors = (*files.model, *files.data)
    starts = [_HEADER.size] + [0] * (len(descriptors) - 1)
    try:
        return [
            [_read(descriptor, start + first, last - first) for first, last in pairwise(cuts)]
            for descriptor, start, cuts in zip(descriptors, starts, _cuts(header), strict=True)
        ]
    except OSError as error:
        general_failure(f"a cache file cannot be read: {error.strerror}")


def _size(descriptor: Descriptor) -> int:
    status = os.fstat(descriptor.fileno())
    if not stat.S_ISREG(status.st_mode):
        general_failure("a cache file is no regular file")
    return status.st_size


def _read(descriptor: Descriptor, start: int, count: int) -> bytes:
    """Read ``count`` bytes from ``start``. Raises OSError, and GENERAL_FAILURE if the file ends before."""
    pieces, missing = [], count
    while missing:
        piece = os.pread(descriptor.fileno(), missing, start + count - missing)
        if not piece:
            general_failure(f"a cache file ends after {start + count - missing} bytes, expected {start + count}")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _no_id(_: Descriptor) -> int:
    raise ValueError("a model without pools has no descriptor")


def _no_descriptor(number: int) -> Descriptor:
    raise ValueError(f"descriptor {number} in a cached model")
