"""Blocks of a binary: fields at offsets."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from struct import Struct
from typing import Any, Self


def at(offset: int, form: str, default: Any = MISSING) -> Any:
    """Return a dataclass's field: little-endian, at an offset from the block's start. ``form`` is as for ``struct``."""
    return field(default=default, metadata={"offset": offset, "struct": Struct(f"<{form}")})


@dataclass(frozen=True, slots=True)
class BinaryBlock:
    """A block. Each of its fields says with ``at`` where it lies; other bytes are reserved, and 0.

    A field of several numbers is a tuple, a text is bytes without the zeros at its end.
    """

    def write(self, target: bytearray, start: int) -> None:
        """Write all fields. Raises ``struct.error`` for a value that does not fit."""
        for each in fields(self):
            offset, form = _place(each)
            value = getattr(self, each.name)
            form.pack_into(target, start + offset, *(value if isinstance(value, tuple) else (value,)))

    @classmethod
    def read(cls, data: bytes | bytearray, start: int) -> Self:
        """Return what is there, sound or not."""
        values: dict[str, Any] = {}
        for each in fields(cls):
            offset, form = _place(each)
            found = form.unpack_from(data, start + offset)
            value = found if len(found) > 1 else found[0]
            values[each.name] = value.rstrip(b"\0") if isinstance(value, bytes) else value
        return cls(**values)

    @classmethod
    def field_at(cls, offset: int) -> str:
        """Return the name of the field that has a byte of the block."""
        for each in fields(cls):
            first, form = _place(each)
            if first <= offset < first + form.size:
                return each.name
        return "reserved"


def _place(block_field: Field[Any]) -> tuple[int, Struct]:
    return block_field.metadata["offset"], block_field.metadata["struct"]
