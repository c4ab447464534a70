"""Tables of a flatbuffer, each read at once from the bytes of the file.

The accessors that are made from a schema look each field up anew. A file has thousands of fields, but few layouts: all
tables with the same fields have the same offsets. So each kind of table is declared, as a named tuple, and each layout
of it becomes a Struct that reads a whole table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from operator import itemgetter
from struct import Struct, calcsize, unpack_from
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_type_hints

from nnhal_frontends.content import ModelContent

Bool: TypeAlias = Annotated[bool, "?"]
Int8: TypeAlias = Annotated[int, "b"]
UInt8: TypeAlias = Annotated[int, "B"]
Int32: TypeAlias = Annotated[int, "i"]
UInt32: TypeAlias = Annotated[int, "I"]
UInt64: TypeAlias = Annotated[int, "Q"]
Reference: TypeAlias = Annotated[int, "I", "reference"]
"""Where a vector or another table begins in the file; 0 if the field is left out."""

Kind = TypeVar("Kind", bound=tuple[Any, ...])
"""A named tuple of the fields of a table, in the schema's order, with the schema's defaults."""

_INT32, _UINT16, _UINT32 = Struct("<i"), Struct("<H"), Struct("<I")
_HEAD = 4
"""Bytes of two heads: before the offsets (the lengths of offsets and table), and before the fields (the distance back
to the offsets).
"""
_MOST_OFFSETS = _HEAD + 2 * 24
"""Bytes of offsets that are looked at. No table of the schema has as many fields, but one may claim to have 32,766."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Places of the fields of a table."""

    present: Struct
    """The fields that the table has, in the order in which they lie."""
    absent: tuple[Any, ...]
    """The defaults of the others."""
    in_order: Callable[[list[Any]], tuple[Any, ...]]
    """Puts those that are present, and then those that are absent, into the schema's order."""
    references: tuple[tuple[int, int], ...]
    """The references among those that are present: which they are, and where they lie."""


class Tables:
    """The tables and vectors of a file. Methods raise ValueError or struct.error for what leads out of the file."""

    def __init__(self, content: ModelContent) -> None:
        self._content = content
        self._layouts: dict[tuple[object, int], _Layout] = {}

    def root(self, kind: type[Kind]) -> Kind:
        """Return the table that the file begins with."""
        return self.at(kind, _UINT32.unpack_from(self._content)[0])

    def at(self, kind: type[Kind], position: int) -> Kind:
        """Return the table that begins at a byte of the file."""
        start = position - _INT32.unpack_from(self._content, position)[0]
        layout = self._layouts.get((kind, start))
        if layout is None:
            layout = self._layouts[kind, start] = self._layout_at(kind, start)
        values = [*layout.present.unpack_from(self._content, position), *layout.absent]
        for index, offset in layout.references:
            values[index] += position + offset
        return tuple.__new__(kind, layout.in_order(values))

    def _layout_at(self, kind: Any, start: int) -> _Layout:
        if start < 0:
            raise ValueError(f"the fields of a table lie at {start}")
        length = min(_UINT16.unpack_from(self._content, start)[0], _MOST_OFFSETS)
        return _layout(kind, self._content[start : start + length])

    def vector(self, place: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many it claims to have; 0 and 0 if ``place`` is 0."""
        return (place + _UINT32.size, _UINT32.unpack_from(self._content, place)[0]) if place else (0, 0)

    def numbers(self, place: int, letter: str) -> tuple[Any, ...]:
        """Return the numbers of a vector, of the type that a letter of ``struct`` names; none if ``place`` is 0."""
        if not place:
            return ()
        (length,) = _UINT32.unpack_from(self._content, place)
        return unpack_from(f"<{length}{letter}", self._content, place + _UINT32.size)

    def places(self, place: int) -> list[int]:
        """Return where the tables of a vector begin."""
        offsets = self.numbers(place, "I")
        return [start + offset for start, offset in zip(count(place + 4, 4), offsets, strict=False)]


@lru_cache(maxsize=1024)
def _layout(kind: Any, offsets: bytes) -> _Layout:
    """Return the layout of tables of a kind, from the bytes that have the offsets of their fields."""
    if len(offsets) < max(_HEAD, min(_UINT16.unpack_from(offsets)[0], _MOST_OFFSETS)):
        raise ValueError(f"{len(offsets)} bytes of offsets")
    found, fields = unpack_from(f"<{len(offsets) // 2 - 2}H", offsets, _HEAD), _fields(kind)
    present = sorted((offset, number) for number, offset in enumerate(found[: len(fields)]) if offset)
    order = [number for _, number in present]
    order += [number for number in range(len(fields)) if number not in order]
    end, text = 0, "<"
    for offset, number in present:
        letter = fields[number][0]
        if offset < max(end, _HEAD):
            raise ValueError(f"two fields of a table lie at {offset}")
        text += f"{offset - end}x{letter}"
        end = offset + calcsize(f"<{letter}")
    defaults = [kind._field_defaults[name] for name in kind._fields]
    return _Layout(
        Struct(text),
        tuple(defaults[number] for number in order[len(present) :]),
        _in_order(order),
        tuple((index, offset) for index, (offset, number) in enumerate(present) if "reference" in fields[number]),
    )


def _in_order(order: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    places = [order.index(number) for number in range(len(order))]
    return itemgetter(*places) if len(places) > 1 else cast("Callable[[list[Any]], tuple[Any, ...]]", tuple)


@cache
def _fields(kind: Any) -> list[tuple[str, ...]]:
    """Return what the annotations of the fields of a kind say: a letter of ``struct``, and what is a reference."""
    hints = get_type_hints(kind, include_extras=True)
    return [hints[name].__metadata__ for name in kind._fields]
