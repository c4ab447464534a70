"""The blocks of a binary's metadata, with the offsets of the public driver (DPDK, cn10k_ml_model.h).

Ranges of addresses end at their last byte. An empty one ends one byte before it begins.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from struct import Struct
from typing import Any, Self, TypeAlias

Version: TypeAlias = tuple[int, int, int, int]


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
        for each in fields(cls):
            first, form = _place(each)
            if first <= offset < first + form.size:
                return each.name
        return "reserved"


def _place(block_field: Field[Any]) -> tuple[int, Struct]:
    return block_field.metadata["offset"], block_field.metadata["struct"]


@dataclass(frozen=True, slots=True)
class HeaderBlock(BinaryBlock):
    """Kind and size of the file."""

    magic: bytes = at(0, "4s")
    version: tuple[int, int, int, int] = at(4, "4B")
    """The version of the metadata."""
    metadata_bytes: int = at(8, "I")
    uuid: bytes = at(12, "16s")
    target: int = at(28, "I")
    """0 undefined, 1 M1K, 128 MLIP, 256 experimental."""
    payload_crc: int = at(248, "I", default=0)
    """The checksum of all bytes after this block; 0 if the driver shall not check it."""
    header_crc: int = at(252, "I", default=0)
    """The checksum of the bytes of this block before this field; 0 if the driver shall not check it."""


@dataclass(frozen=True, slots=True)
class ModelBlock(BinaryBlock):
    """Needs of the model."""

    name: bytes = at(0, "64s")
    version: tuple[int, int, int, int] = at(64, "4B")
    code_bytes: int = at(68, "I")
    data_bytes: int = at(72, "I")
    ocm_start: int = at(76, "I")
    ocm_end: int = at(80, "I")
    ocm_relocatable: int = at(84, "B")
    tile_relocatable: int = at(85, "B")
    first_tile: int = at(86, "B")
    last_tile: int = at(87, "B")
    batch: int = at(88, "B")
    """0 means 256."""
    inputs: int = at(89, "B")
    outputs: int = at(90, "B")
    input_bytes: int = at(92, "I")
    output_bytes: int = at(96, "I")
    table_bytes: int = at(100, "I")
    layers: int = at(104, "I")
    ocm_scratch_floor: int = at(112, "Q")
    ocm_weights: tuple[int, int] = at(120, "2Q")
    ddr_weights: tuple[int, int] = at(136, "2Q")
    ddr_inputs: tuple[int, int] = at(152, "2Q")
    ddr_outputs: tuple[int, int] = at(168, "2Q")
    compiler_version: bytes = at(184, "8s")
    cdk_version: tuple[int, int, int, int] = at(192, "4B")
    lower_batch: int = at(196, "B")
    """True if smaller batches are supported."""
    ddr_scratch: tuple[int, int] = at(200, "2Q")


@dataclass(frozen=True, slots=True)
class SectionBlock(BinaryBlock):
    """Place of a section of code in the file."""

    file_offset: int = at(0, "I")
    file_bytes: int = at(4, "I")


@dataclass(frozen=True, slots=True)
class WeightsBlock(BinaryBlock):
    """Place of weights and biases in the file."""

    memory_offset: int = at(0, "Q")
    file_offset: int = at(8, "I")
    file_bytes: int = at(12, "I")
    relocatable: int = at(16, "B")


@dataclass(frozen=True, slots=True)
class InputBlock(BinaryBlock):
    memory_offset: int = at(0, "Q")
    relocatable: int = at(8, "B")
    quantize: int = at(9, "B")
    """1 if the driver shall convert it, 2 if it is given as it is wanted."""
    given: int = at(10, "B")
    """A ``TensorType``, as all types here."""
    wanted: int = at(11, "B")
    scale: float = at(12, "f")
    """What the driver multiplies by, before it rounds to an integer."""
    format: int = at(16, "B")
    """1 NCHW, 2 NHWC."""
    shape: tuple[int, int, int, int] = at(20, "4I")
    name: bytes = at(40, "16s")
    memory_end: int = at(56, "Q")


@dataclass(frozen=True, slots=True)
class OutputBlock(BinaryBlock):
    memory_offset: int = at(0, "Q")
    relocatable: int = at(8, "B")
    dequantize: int = at(9, "B")
    """1 if the driver shall convert it, 2 if it is returned as it is produced."""
    returned: int = at(10, "B")
    produced: int = at(11, "B")
    scale: float = at(12, "f")
    """What the driver multiplies an integer by."""
    elements: int = at(16, "I")
    memory_end: int = at(40, "Q")
    name: bytes = at(48, "16s")


@dataclass(frozen=True, slots=True)
class VersionsBlock(BinaryBlock):
    """Versions of the programs that made the file."""

    compiler_version: bytes = at(996, "8s")
    cdk_version: tuple[int, int, int, int] = at(1004, "4B")
