"""Tables of a flatbuffer, read from the bytes of the file.

The accessors that are made from a schema look each field up anew, one number at a time. A file has thousands of fields,
so here the offsets of a table are read once and vectors of numbers at once.
"""

from __future__ import annotations

from struct import Struct, unpack_from

from nnhal_frontends.content import ModelContent

INT8, UINT8, BOOL = Struct("<b"), Struct("<B"), Struct("<?")
INT32, UINT32, UINT64 = Struct("<i"), Struct("<I"), Struct("<Q")
_UINT16 = Struct("<H")
_MOST_FIELDS = 24
"""Fields that are read of a table, which may claim to have 32,766. No table of the schema has more."""
_SIZES = 2
"""Numbers before the offsets of the fields: how many bytes the offsets have, and the table."""


class Table:
    """One table, whose fields have the schema's numbers.

    A table and each method raise ValueError or struct.error if an offset leads out of the file.
    """

    __slots__ = ("_offsets", "content", "position")

    def __init__(self, content: ModelContent, position: int) -> None:
        """``position`` is where the table begins in the file's bytes."""
        start = position - INT32.unpack_from(content, position)[0]
        if start < 0:
            raise ValueError(f"the fields of a table lie at {start}")
        count = (_UINT16.unpack_from(content, start)[0] + 1) // 2
        self._offsets: tuple[int, ...] = unpack_from(f"<{min(count, _SIZES + _MOST_FIELDS)}H", content, start)
        self.content = content
        self.position = position

    @classmethod
    def root(cls, content: ModelContent) -> Table:
        """Return the table that a file begins with."""
        return cls(content, UINT32.unpack_from(content)[0])

    def scalar(self, field: int, layout: Struct, default: int = 0) -> int:
        """Return a number, by default the schema's default."""
        place = self._place(field)
        return layout.unpack_from(self.content, place)[0] if place else default

    def table(self, field: int) -> Table | None:
        """Return the table that a field refers to; None if the field is left out."""
        place = self._target(field)
        return Table(self.content, place) if place else None

    def vector(self, field: int) -> tuple[int, int]:
        """Return where a vector's elements begin, and how many it claims to have; 0 and 0 if it is left out."""
        place = self._target(field)
        return (place + UINT32.size, UINT32.unpack_from(self.content, place)[0]) if place else (0, 0)

    def has(self, field: int) -> bool:
        """Return whether a table has a field."""
        return self._place(field) != 0

    def _target(self, field: int) -> int:
        """Return where a field refers to; 0 if the field is left out."""
        place = self._place(field)
        return place + UINT32.unpack_from(self.content, place)[0] if place else 0

    def _place(self, field: int) -> int:
        """Return where a field lies; 0 if it is left out, as fields with default values are."""
        index = _SIZES + field
        offset = self._offsets[index] if index < len(self._offsets) else 0
        return self.position + offset if offset else 0


def tables_at(content: ModelContent, start: int, length: int) -> list[Table]:
    """Return the tables of a vector. Raises ValueError or struct.error if it ends behind the file."""
    places = integers_at(content, start, length, "I")
    return [Table(content, start + 4 * index + place) for index, place in enumerate(places)]


def integers_at(content: ModelContent, start: int, length: int, letter: str) -> tuple[int, ...]:
    """Return the integers of a vector, of the type that a letter of ``struct`` stands for. Raises struct.error."""
    return unpack_from(f"<{length}{letter}", content, start) if length else ()


def reals_at(content: ModelContent, start: int, length: int) -> tuple[float, ...]:
    """Return the numbers of a vector of float32. Raises struct.error if it ends behind the file."""
    return unpack_from(f"<{length}f", content, start) if length else ()
