"""Compilation caching: a prepared model in files that the client keeps.

The model-cache files hold the model, the data-cache files its constants and what the driver's compiler made of it, if
the driver gives that: then constants that it replaces are left out. The first file begins with a header; its digest,
keyed with the client's token, covers the driver's version and every byte of every file. A file is read once, as a
whole: the bytes that are checked are the bytes that are used. A model from a cache is validated like any other, since
the token is no secret. All files are left empty if an entry would cost more than it gains.
"""

from __future__ import annotations

import errno
import hmac
import os
import stat
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.arrays import Array, Bytes
from nnhal.codec import model_from_wire, model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure
from nnhal.memory import CopyBudget
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
_ALWAYS_KEPT_BYTES = 2 << 20
"""Entries up to this size are kept in any case: they are written in 4 ms, and spare the framework an import."""
_NS_PER_BYTE = 1.0
"""What writing an entry takes of processor time, or reading one: the digest and a copy."""
_WRITING_SHARE, _READING_SHARE = 0.4, 0.02
"""The most that an entry may take of the time of the compilation: to write it with an artifact, to read it without."""


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
        """Return whether the number of files is what a device needs."""
        return (len(self.model), len(self.data)) == (needed.num_model_cache, needed.num_data_cache)


NO_CACHE = CacheFiles()


def save(
    files: CacheFiles,
    version: str,
    model: ResolvedModel,
    options: PrepareOptions,
    workload: Workload | None = None,
    compile_ns: int | None = None,
    replaced: Collection[int] = (),
) -> None:
    """Write a model, with the artifact of its workload if it has one, unless that would cost more than it gains.

    ``compile_ns`` is the processor time that the preparation took; None keeps the model whatever it took. ``replaced``
    are main's constants that the artifact makes needless: they are left out. A failure is logged and leaves no valid
    entry; the preparation does not fail with it.
    """
    try:
        _truncate((*files.model, *files.data))
        artifact = _artifact(workload)
        size = sum(map(len, artifact or ()))
        constants = _Constants(model.constants, replaced if size else ())
        if artifact is None or not _pays(constants.size + size, size > 0, compile_ns):
            _log.info("a compilation was not cached", reason="the model is prepared as fast without a cache")
            return
        _save(files, version, model, options, artifact, constants)
    except Exception as error:
        _log.info("a compilation was not cached", reason=repr(error))


class EntryHeader(NamedTuple):
    """First file of an entry, which describes it."""

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


def load(
    files: CacheFiles,
    header: EntryHeader,
    version: str,
    deadline_ns: int,
    copies: CopyBudget,
    restores: bool = False,
) -> tuple[Model, PrepareOptions]:
    """Read a model, not validated yet. ``restores`` tells whether constants may have been left out: those are zeros.

    Raises GENERAL_FAILURE if the entry is incomplete or another one, RESOURCE_EXHAUSTED_TRANSIENT if the zeros are more
    than ``copies`` has room for: a few bytes may claim gigabytes of them.
    """
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
    missing = _missing(constants, model) if artifact and restores else 0
    with copies.taken(missing, "constants that a cache entry leaves out"):
        return replace(model, operand_values=constants + bytes(missing) if missing else constants), options


def _artifact(workload: Workload | None) -> Sequence[memoryview] | None:
    """Return the artifact of a workload in pieces, which may be none at all; None if nothing is to be cached."""
    if not isinstance(workload, CompiledWorkload):
        return ()
    artifact = workload.artifact()
    return [memoryview(artifact)] if isinstance(artifact, bytes) else artifact


def _pays(size: int, has_artifact: bool, compile_ns: int | None) -> bool:
    """Return whether an entry of ``size`` bytes takes little time beside the compilation, which took ``compile_ns``.

    Without an artifact the model is compiled from the cache, too: reading the entry then gains nothing.
    """
    if compile_ns is None or size <= _ALWAYS_KEPT_BYTES:
        return True
    share = _WRITING_SHARE if has_artifact else _READING_SHARE
    return size * _NS_PER_BYTE <= share * compile_ns


def _save(
    files: CacheFiles,
    version: str,
    model: ResolvedModel,
    options: PrepareOptions,
    artifact: Sequence[memoryview],
    constants: _Constants,
) -> None:
    main, *referenced = (
        _with_inline_constants(graph, places) for graph, places in zip(model.subgraphs, constants.places, strict=True)
    )
    stripped = replace(model.model, main=main, referenced=tuple(referenced), operand_values=b"", pools=())
    structure = device_pb2.PrepareModelRequest(
        model=model_to_wire(stripped, _no_id),
        preference=types_pb2.ExecutionPreference.ValueType(options.preference),
        priority=types_pb2.Priority.ValueType(options.priority),
    ).SerializeToString()
    lengths = EntryLengths(len(structure), sum(map(len, artifact)), constants.size)
    parts = (memoryview(structure), constants.joined().data, *artifact)  # in the order of _ORDER
    contents = _divided(parts, len(files.model), len(files.data))
    descriptors = (*files.model, *files.data)
    for number, (descriptor, content) in enumerate(zip(descriptors, contents, strict=True)):
        offset = 0 if number else _HEADER.size
        for piece in content:
            _write(descriptor, piece, offset)
            offset += len(piece)
    # Last, so that an interrupted save is never valid.
    digest = _digest(files.token, version, lengths, contents)
    _write(descriptors[0], memoryview(_HEADER.pack(_MAGIC, digest, *lengths)), 0)


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


class _Constants:
    """Places of an entry's constants among each other."""

    def __init__(self, constants: Sequence[Mapping[int, Array]], left_out: Collection[int]) -> None:
        """``constants`` are those of each subgraph; ``left_out`` are some of main's.

        Those are given places that begin where the others end. Raises ValueError if the others are too large.
        """
        self.size = 0
        self._kept: list[tuple[int, Array]] = []
        main, *others = constants
        kept = {index: self._place(value) for index, value in main.items() if index not in left_out}
        referenced = [{index: self._place(value) for index, value in values.items()} for values in others]
        end = self._end()
        self.places = [kept | {index: DataLocation(0, end, main[index].nbytes) for index in left_out}, *referenced]
        """Of each subgraph, by operand."""

    def _end(self) -> int:
        return self.size + -self.size % _ALIGNMENT

    def _place(self, value: Array) -> DataLocation:
        start = self._end()
        if start + value.nbytes > _MAX_BYTES:
            raise ValueError(f"constants of more than {_MAX_BYTES} bytes")
        self._kept.append((start, value))
        self.size = start + value.nbytes
        return DataLocation(0, start, value.nbytes)

    def joined(self) -> Bytes:
        """Return those that are not left out, each copied once."""
        found = np.zeros(self.size, np.uint8)
        for start, value in self._kept:
            found[start : start + value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return found


def _with_inline_constants(graph: Subgraph, places: Mapping[int, DataLocation]) -> Subgraph:
    operands = list(graph.operands)
    for index, location in places.items():
        operands[index] = operands[index].placed(OperandLifeTime.CONSTANT_COPY, location)
    return replace(graph, operands=tuple(operands))


def _missing(constants: bytes, model: Model) -> int:
    """The bytes of the constants that were left out of an entry, which lie behind the others."""
    ends = [
        operand.location.offset + operand.location.length
        for graph in (model.main, *model.referenced)
        for operand in graph.operands
        if operand.lifetime == OperandLifeTime.CONSTANT_COPY
    ]
    missing = max(ends, default=0) - len(constants)
    return missing if 0 < missing <= _MAX_BYTES else 0


def _divided(parts: Sequence[memoryview], model_files: int, data_files: int) -> list[list[memoryview]]:
    """Divide the structure and the values among the files, without a copy. Joined again, they follow one another."""
    if not model_files or not data_files:
        return _pieces(parts, model_files + data_files)
    return [*_pieces(parts[:1], model_files), *_pieces(parts[1:], data_files)]


def _pieces(parts: Sequence[memoryview], count: int) -> list[list[memoryview]]:
    """Return what each of ``count`` files holds of the parts; all but the last are equally long."""
    starts = [0, *accumulate(map(len, parts))]
    size = -(-starts[-1] // count)
    contents = []
    for first in range(0, count * size, size) if size else [0] * count:
        cuts = [(max(first - start, 0), max(first + size - start, 0)) for start in starts]
        contents.append([part[low:high] for part, (low, high) in zip(parts, cuts, strict=False) if part[low:high]])
    return contents


def _cuts(header: EntryHeader) -> list[list[int]]:
    """Return where each file's content, which begins at 0, is divided so that no piece is of two parts."""
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


def _digest(
    token: bytes, version: str, lengths: EntryLengths, contents: Sequence[Sequence[bytes | memoryview]]
) -> bytes:
    digest = hmac.new(token, digestmod="sha256")  # many processors have instructions for it
    digest.update(struct.pack("<QQQQ", len(version.encode()), *lengths))
    digest.update(version.encode())
    for content in contents:
        digest.update(struct.pack("<Q", sum(map(len, content))))
        for piece in content:
            digest.update(piece)
    return digest.digest()


def _write(descriptor: Descriptor, view: memoryview, offset: int) -> None:
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
