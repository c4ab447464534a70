"""The blocks of a binary's metadata, with the offsets of the public driver (DPDK, cn10k_ml_model.h).

Ranges of addresses end at their last byte. An empty one ends one byte before it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from nnhal_mlip.program.blocks import BinaryBlock, BinaryField, places

Version: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class HeaderBlock(BinaryBlock):
    """What the file is."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(
        magic=(0, "4s"),
        version=(4, "4B"),
        metadata_bytes=(8, "I"),
        uuid=(12, "16s"),
        target=(28, "I"),
        payload_crc=(248, "I"),
        header_crc=(252, "I"),
    )
    magic: bytes
    version: Version
    """Of the metadata."""
    metadata_bytes: int
    uuid: bytes
    target: int
    """0 undefined, 1 M1K, 128 MLIP, 256 experimental."""
    payload_crc: int = 0
    """Of all bytes after this block; 0 if the driver shall not check it."""
    header_crc: int = 0
    """Of the bytes of this block before this field; 0 if the driver shall not check it."""


@dataclass(frozen=True, slots=True)
class ModelBlock(BinaryBlock):
    """What the model needs."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(
        name=(0, "64s"),
        version=(64, "4B"),
        code_bytes=(68, "I"),
        data_bytes=(72, "I"),
        ocm_start=(76, "I"),
        ocm_end=(80, "I"),
        ocm_relocatable=(84, "B"),
        tile_relocatable=(85, "B"),
        first_tile=(86, "B"),
        last_tile=(87, "B"),
        batch=(88, "B"),
        inputs=(89, "B"),
        outputs=(90, "B"),
        input_bytes=(92, "I"),
        output_bytes=(96, "I"),
        table_bytes=(100, "I"),
        layers=(104, "I"),
        ocm_scratch_floor=(112, "Q"),
        ocm_weights=(120, "2Q"),
        ddr_weights=(136, "2Q"),
        ddr_inputs=(152, "2Q"),
        ddr_outputs=(168, "2Q"),
        compiler_version=(184, "8s"),
        cdk_version=(192, "4B"),
        lower_batch=(196, "B"),
        ddr_scratch=(200, "2Q"),
    )
    name: bytes
    version: Version
    code_bytes: int
    data_bytes: int
    ocm_start: int
    ocm_end: int
    ocm_relocatable: int
    tile_relocatable: int
    first_tile: int
    last_tile: int
    batch: int
    """0 means 256."""
    inputs: int
    outputs: int
    input_bytes: int
    output_bytes: int
    table_bytes: int
    layers: int
    ocm_scratch_floor: int
    ocm_weights: tuple[int, int]
    ddr_weights: tuple[int, int]
    ddr_inputs: tuple[int, int]
    ddr_outputs: tuple[int, int]
    compiler_version: bytes
    cdk_version: Version
    lower_batch: int
    """Whether smaller batches are supported."""
    ddr_scratch: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SectionBlock(BinaryBlock):
    """Where a section of code lies in the file."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(file_offset=(0, "I"), file_bytes=(4, "I"))
    file_offset: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class WeightsBlock(BinaryBlock):
    """Where weights and biases lie in the file."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(
        memory_offset=(0, "Q"), file_offset=(8, "I"), file_bytes=(12, "I"), relocatable=(16, "B")
    )
    memory_offset: int
    file_offset: int
    file_bytes: int
    relocatable: int


@dataclass(frozen=True, slots=True)
class InputBlock(BinaryBlock):
    """An input."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(
        memory_offset=(0, "Q"),
        relocatable=(8, "B"),
        quantize=(9, "B"),
        given=(10, "B"),
        wanted=(11, "B"),
        scale=(12, "f"),
        format=(16, "B"),
        shape=(20, "4I"),
        name=(40, "16s"),
        memory_end=(56, "Q"),
    )
    memory_offset: int
    relocatable: int
    quantize: int
    """1 if the driver shall convert it, 2 if it is given as it is wanted."""
    given: int
    """A ``TensorType``, as all types here."""
    wanted: int
    scale: float
    """What the driver multiplies by, before it rounds to an integer."""
    format: int
    """1 NCHW, 2 NHWC."""
    shape: tuple[int, int, int, int]
    name: bytes
    memory_end: int


@dataclass(frozen=True, slots=True)
class OutputBlock(BinaryBlock):
    """An output."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(
        memory_offset=(0, "Q"),
        relocatable=(8, "B"),
        dequantize=(9, "B"),
        returned=(10, "B"),
        produced=(11, "B"),
        scale=(12, "f"),
        elements=(16, "I"),
        memory_end=(40, "Q"),
        name=(48, "16s"),
    )
    memory_offset: int
    relocatable: int
    dequantize: int
    """1 if the driver shall convert it, 2 if it is returned as it is produced."""
    returned: int
    produced: int
    scale: float
    """What the driver multiplies an integer by."""
    elements: int
    memory_end: int
    name: bytes


@dataclass(frozen=True, slots=True)
class VersionsBlock(BinaryBlock):
    """What made the file."""

    PLACES: ClassVar[dict[str, BinaryField]] = places(compiler_version=(996, "8s"), cdk_version=(1004, "4B"))
    compiler_version: bytes
    cdk_version: Version
