"""Blocks of a binary: fields at offsets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, ClassVar, NamedTuple, Self


class BinaryField(NamedTuple):
    """A field of a block."""

    offset: int
    """From the block's start."""
    struct: Struct

    @classmethod
    def at(cls, offset: int, form: str) -> BinaryField:
        """Return a little-endian field; ``form`` is as for ``struct``."""
        return cls(offset, Struct(f"<{form}"))


@dataclass(frozen=True, slots=True)
class BinaryBlock:
    """A block. Its fields are a dataclass's, all at the places that ``PLACES`` says; other bytes are reserved, and 0.

    A field of several numbers is a tuple, a text is bytes without the zeros at its end.
    """

    PLACES: ClassVar[dict[str, BinaryField]]

    def write(self, target: bytearray, start: int) -> None:
        """Write all fields. Raises ``struct.error`` for a value that does not fit."""
        for field in fields(self):
            place, value = self.PLACES[field.name], getattr(self, field.name)
            place.struct.pack_into(target, start + place.offset, *(value if isinstance(value, tuple) else (value,)))

    @classmethod
    def read(cls, data: bytes | bytearray, start: int) -> Self:
        """Return what is there, sound or not."""
        values: dict[str, Any] = {}
        for name, place in cls.PLACES.items():
            found = place.struct.unpack_from(data, start + place.offset)
            value = found if len(found) > 1 else found[0]
            values[name] = value.rstrip(b"\0") if isinstance(value, bytes) else value
        return cls(**values)

    @classmethod
    def field_at(cls, offset: int) -> str:
        """Return the name of the field that has a byte of the block."""
        for name, place in cls.PLACES.items():
            if place.offset <= offset < place.offset + place.struct.size:
                return name
        return "reserved"


def places(**all_places: tuple[int, str]) -> dict[str, BinaryField]:
    """Return fields by their offsets and formats."""
    return {name: BinaryField.at(*place) for name, place in all_places.items()}
