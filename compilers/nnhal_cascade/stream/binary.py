"""The binary form of a command stream.

A header, then sections. Each section is four letters, its length in bytes, and its content:

``ARNA``  the regions in which the stream allocates, each with its size and its name
``TENS``  the tensors: shape, bytes of an element, name
``PART``  the parts: output, bytes of constants for a channel, inputs, name
``KIND``  one byte for each command: its kind
``CMDS``  the commands' operands, kind by kind, each kind as rows of 32-bit numbers in the stream's order
``BOXS``  the boxes of the inputs of all stripes, in the stream's order

Numbers are unsigned and little-endian. A CRC-32 covers all sections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module spells it like a function
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.plans.plan import WeightsIn
from nnhal_cascade.stream.commands import (
    DIGEST_BYTES,
    AllocateConstants,
    AllocateTensor,
    BeginPlan,
    Command,
    CommandStream,
    CopyConstants,
    LoadInput,
    PartSymbol,
    ReleaseConstants,
    ReleaseTensor,
    Roll,
    RunStripe,
    StoreOutput,
    TensorSymbol,
)

MAGIC = b"NNCS"
VERSION = 1

_HEADER = Struct(f"<4sHxxQI{DIGEST_BYTES}s")
_SECTION = Struct("<4sQ")
_ARENA = Struct("<Q")
_TENSOR = Struct("<IIIB")
_PART = Struct("<III")
_COUNT = Struct("<I")
_WORD = np.dtype("<u4")
_SECTIONS = (b"ARNA", b"TENS", b"PART", b"KIND", b"CMDS", b"BOXS")
_PLACES = tuple(WeightsIn)

_Words = NDArray[np.uint32]
_Row = Sequence[int]
_T = TypeVar("_T")


class _Kind(NamedTuple):
    """Format of the commands of one kind: a row of ``width`` words each."""

    command: type[Any]
    width: int
    write: Callable[[Any, Mapping[str, int]], _Row]
    read: Callable[[_Row, Sequence[str], Iterator[Box]], Command]


def _flat(box: Box) -> _Row:
    return [*box[0], *box[1], *box[2]]


def _box(row: _Row) -> Box:
    return Box(Interval(row[0], row[1]), Interval(row[2], row[3]), Interval(row[4], row[5]))


_KINDS = (
    _Kind(BeginPlan, 1, lambda c, _: c, lambda row, *_: BeginPlan(row[0])),
    _Kind(
        AllocateTensor,
        6,
        lambda c, regions: [c.tensor, regions[c.region], c.address, *c.extents],
        lambda row, regions, _: AllocateTensor(row[0], regions[row[1]], row[2], Shape(*row[3:])),
    ),
    _Kind(
        AllocateConstants,
        5,
        lambda c, regions: [c.part, regions[c.region], c.address, c.bytes, c.slots],
        lambda row, regions, _: AllocateConstants(row[0], regions[row[1]], *row[2:]),
    ),
    _Kind(LoadInput, 1, lambda c, _: c, lambda row, *_: LoadInput(row[0])),
    _Kind(StoreOutput, 1, lambda c, _: c, lambda row, *_: StoreOutput(row[0])),
    _Kind(
        CopyConstants,
        4,
        lambda c, _: [c.part, *c.channels, c.slot],
        lambda row, *_: CopyConstants(row[0], Interval(row[1], row[2]), row[3]),
    ),
    _Kind(
        RunStripe,
        10,
        lambda c, _: [c.part, *_flat(c.output), _PLACES.index(c.weights), c.slot, len(c.inputs)],
        lambda row, _, boxes: RunStripe(
            row[0], _box(row[1:7]), tuple([next(boxes) for _ in range(row[9])]), _PLACES[row[7]], row[8]
        ),
    ),
    _Kind(
        Roll,
        4,
        lambda c, _: [c.tensor, c.axis, *c.dead],
        lambda row, *_: Roll(row[0], Axis(row[1]), Interval(row[2], row[3])),
    ),
    _Kind(ReleaseTensor, 1, lambda c, _: c, lambda row, *_: ReleaseTensor(row[0])),
    _Kind(ReleaseConstants, 1, lambda c, _: c, lambda row, *_: ReleaseConstants(row[0])),
)
_CODES = {kind.command: code for code, kind in enumerate(_KINDS)}


def to_bytes(stream: CommandStream) -> bytes:
    """Return the binary form. Raises ValueError for a command that has none, such as one with a negative number."""
    regions = {name: index for index, (name, _) in enumerate(stream.arenas)}
    rows: list[list[_Row]] = [[] for _ in _KINDS]
    boxes: list[_Row] = []
    codes = bytearray()
    for number, command in enumerate(stream.commands):
        code = _CODES[type(command)]
        codes.append(code)
        try:
            rows[code].append(_KINDS[code].write(command, regions))
        except KeyError as error:
            raise ValueError(f"command {number} names the region {error}, expected one of {list(regions)}") from error
        if isinstance(command, RunStripe):
            boxes += map(_flat, command.inputs)
    commands = b"".join(_words(each, kind.command.__name__) for each, kind in zip(rows, _KINDS, strict=True))
    contents = (
        b"".join(_ARENA.pack(size) + _text(name) for name, size in stream.arenas),
        b"".join(_TENSOR.pack(*t.shape, t.element_bytes) + _text(t.name) for t in stream.tensors),
        b"".join(
            _PART.pack(p.output, p.channel_bytes, len(p.inputs)) + _words([p.inputs], p.name) + _text(p.name)
            for p in stream.parts
        ),
        bytes(codes),
        commands,
        _words(boxes, RunStripe.__name__),
    )
    body = b"".join(
        _SECTION.pack(tag, len(content)) + content for tag, content in zip(_SECTIONS, contents, strict=True)
    )
    return _HEADER.pack(MAGIC, VERSION, len(body), crc32(body), stream.digest) + body


def from_bytes(data: bytes) -> CommandStream:
    """Return the stream that a binary form stands for. Raises ValueError with what is wrong with it."""
    digest, body = _opened(data)
    arenas, tensors, parts, codes, commands, boxes = _sections(body)
    try:
        regions = [(name, size) for size, name in _records(arenas, _arena)]
        return CommandStream(
            tuple(_commands(codes, commands, boxes, [name for name, _ in regions])),
            digest,
            tuple(regions),
            tuple(_records(tensors, _tensor)),
            tuple(_records(parts, _part)),
        )
    except (IndexError, StopIteration, RuntimeError, StructError, UnicodeDecodeError) as error:
        raise ValueError(f"a command stream whose sections contradict one another: {error!r}") from error


def _opened(data: bytes) -> tuple[bytes, bytes]:
    """Check the header, and return the digest and the sections."""
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError(f"no command stream: it starts with {data[: len(MAGIC)]!r}, expected {MAGIC!r}")
    if len(data) < _HEADER.size:
        raise ValueError(f"a command stream of {len(data)} bytes, expected at least {_HEADER.size}: the header")
    _, version, length, checksum, digest = _HEADER.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"a command stream of version {version}, expected {VERSION}")
    body = data[_HEADER.size :]
    if len(body) != length:
        raise ValueError(f"a command stream of {len(data)} bytes, expected {_HEADER.size + length}: its header says so")
    if crc32(body) != checksum:
        raise ValueError(f"a damaged command stream: its CRC-32 is {crc32(body):08x}, expected {checksum:08x}")
    return digest, body


def _sections(body: bytes) -> list[bytes]:
    contents, offset = [], 0
    for expected in _SECTIONS:
        if offset + _SECTION.size > len(body):
            raise ValueError(f"a command stream without its section {expected!r}")
        tag, length = _SECTION.unpack_from(body, offset)
        if tag != expected:
            raise ValueError(f"a command stream with the section {tag!r} at byte {offset}, expected {expected!r}")
        offset += _SECTION.size
        contents.append(body[offset : offset + length])
        offset += length
    if offset != len(body):
        raise ValueError(f"a command stream whose sections end at byte {offset} of {len(body)}, expected at the last")
    return contents


def _commands(codes: bytes, commands: bytes, boxes: bytes, regions: Sequence[str]) -> Iterator[Command]:
    counts = np.bincount(np.frombuffer(codes, np.uint8), minlength=len(_KINDS))
    if len(counts) > len(_KINDS):
        raise ValueError(f"a command of kind {len(counts) - 1}, expected at most {len(_KINDS) - 1}")
    sizes = [int(count) * kind.width for count, kind in zip(counts, _KINDS, strict=True)]
    words = _numbers(commands, sum(sizes), "commands")
    by_kind = zip(np.split(words, np.cumsum(sizes)[:-1]), _KINDS, strict=True)
    rows = [iter(numbers.reshape(-1, kind.width).tolist()) for numbers, kind in by_kind]
    found = map(_box, _numbers(boxes, len(boxes) // (6 * _WORD.itemsize) * 6, "boxes").reshape(-1, 6).tolist())
    readers = [kind.read for kind in _KINDS]
    return (readers[code](next(rows[code]), regions, found) for code in codes)


def _numbers(content: bytes, count: int, what: str) -> _Words:
    if len(content) != count * _WORD.itemsize:
        raise ValueError(f"{what} of {len(content)} bytes, expected {count * _WORD.itemsize}")
    return np.frombuffer(content, _WORD)


def _words(rows: Sequence[_Row], what: str) -> bytes:
    numbers = np.array([number for row in rows for number in row], np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < 1 << 32:
        bad = numbers[(numbers < 0) | (numbers >= 1 << 32)][0]
        raise ValueError(f"{what} with the number {bad}, expected 0 to {(1 << 32) - 1}")
    return numbers.astype(_WORD).tobytes()


def _text(text: str) -> bytes:
    raw = text.encode()
    return _COUNT.pack(len(raw)) + raw


def _records(content: bytes, read: Callable[[bytes, int], tuple[_T, int]]) -> Iterator[_T]:
    offset = 0
    while offset < len(content):
        record, offset = read(content, offset)
        yield record


def _string(content: bytes, offset: int) -> tuple[str, int]:
    (length,) = _COUNT.unpack_from(content, offset)
    start = offset + _COUNT.size
    return content[start : start + length].decode(), start + length


def _arena(content: bytes, offset: int) -> tuple[tuple[int, str], int]:
    (size,) = _ARENA.unpack_from(content, offset)
    name, end = _string(content, offset + _ARENA.size)
    return (size, name), end


def _tensor(content: bytes, offset: int) -> tuple[TensorSymbol, int]:
    *shape, element_bytes = _TENSOR.unpack_from(content, offset)
    name, end = _string(content, offset + _TENSOR.size)
    return TensorSymbol(name, Shape(*shape), element_bytes), end


def _part(content: bytes, offset: int) -> tuple[PartSymbol, int]:
    output, channel_bytes, count = _PART.unpack_from(content, offset)
    offset += _PART.size
    inputs = Struct(f"<{count}I").unpack_from(content, offset)
    name, end = _string(content, offset + count * _WORD.itemsize)
    return PartSymbol(name, output, inputs, channel_bytes), end
