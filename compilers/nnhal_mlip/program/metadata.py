"""The metadata of a binary: 8,192 bytes, little-endian (DPDK, cn10k_ml_model.h)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nnhal_mlip.program.crc32c import crc32c
from nnhal_mlip.program.errors import BinaryError, BinaryFault
from nnhal_mlip.program.metadata_blocks import (
    BinaryBlock,
    HeaderBlock,
    InputBlock,
    ModelBlock,
    OutputBlock,
    SectionBlock,
    VersionsBlock,
    WeightsBlock,
)
from nnhal_mlip.program.program import MAX_PORTS

METADATA_BYTES = 8192
HEADER_BYTES = 256

_MODEL = 256
_SECTIONS = (512, 576, 640)
_WEIGHTS = 1216
_VERSIONS = 7168
_PORT_BYTES = 64
_FIRST_PORTS = 8
"""They lie apart from the others, which version 2.3.0.1 added."""
_INPUTS = (1280, 4096)
_OUTPUTS = (1792, 5632)
_BLOCKS: tuple[tuple[int, int, str, type[BinaryBlock]], ...] = (
    (0, HEADER_BYTES, "header", HeaderBlock),
    (_MODEL, 256, "model", ModelBlock),
    (_SECTIONS[0], 64, "init section", SectionBlock),
    (_SECTIONS[1], 64, "main section", SectionBlock),
    (_SECTIONS[2], 64, "finish section", SectionBlock),
    (_WEIGHTS, 64, "weights", WeightsBlock),
    (_VERSIONS, 1008, "versions", VersionsBlock),
)


@dataclass(frozen=True, slots=True)
class MlipMetadata:
    header: HeaderBlock
    model: ModelBlock
    init: SectionBlock
    main: SectionBlock
    finish: SectionBlock
    weights: WeightsBlock
    inputs: tuple[InputBlock, ...]
    outputs: tuple[OutputBlock, ...]
    versions: VersionsBlock


def encode_metadata(metadata: MlipMetadata) -> bytes:
    """Return the 8,192 bytes, with the CRCs that the metadata say.

    Raises:
        BinaryError: a number does not fit its field, or there are more than 32 inputs or outputs.
    """
    for name, ports in (("inputs", metadata.inputs), ("outputs", metadata.outputs)):
        if len(ports) > MAX_PORTS:
            raise BinaryError(BinaryFault.COUNT, f"number of {name}", len(ports), f"at most {MAX_PORTS}", _MODEL)
    data = bytearray(METADATA_BYTES)
    metadata.header.write(data, 0)
    metadata.model.write(data, _MODEL)
    for offset, section in zip(_SECTIONS, (metadata.init, metadata.main, metadata.finish), strict=True):
        section.write(data, offset)
    metadata.weights.write(data, _WEIGHTS)
    for index, read in enumerate(metadata.inputs):
        read.write(data, _port(_INPUTS, index))
    for index, written in enumerate(metadata.outputs):
        written.write(data, _port(_OUTPUTS, index))
    metadata.versions.write(data, _VERSIONS)
    return bytes(data)


def decode_metadata(data: bytes) -> MlipMetadata:
    """Return the metadata at the start of a binary, sound or not; of the inputs and outputs at most 32.

    Raises:
        BinaryError: there are less than 8,192 bytes.
    """
    if len(data) < METADATA_BYTES:
        raise BinaryError(BinaryFault.SIZE, "the binary's length", len(data), f"at least {METADATA_BYTES}", len(data))
    model = ModelBlock.read(data, _MODEL)
    init, main, finish = (SectionBlock.read(data, offset) for offset in _SECTIONS)
    return MlipMetadata(
        header=HeaderBlock.read(data, 0),
        model=model,
        init=init,
        main=main,
        finish=finish,
        weights=WeightsBlock.read(data, _WEIGHTS),
        inputs=tuple(InputBlock.read(data, offset) for offset in input_offsets(model.inputs)),
        outputs=tuple(OutputBlock.read(data, offset) for offset in output_offsets(model.outputs)),
        versions=VersionsBlock.read(data, _VERSIONS),
    )


def sealed(data: bytes | bytearray) -> bytes:
    """Return a binary with the CRCs of its content. A bytearray gets them itself: a copy may be large."""
    result = data if isinstance(data, bytearray) else bytearray(data)
    header = replace(HeaderBlock.read(result, 0), payload_crc=crc32c(memoryview(result)[HEADER_BYTES:]))
    header.write(result, 0)
    replace(header, header_crc=crc32c(result[: HEADER_BYTES - 4])).write(result, 0)
    return bytes(result)


def input_offsets(count: int) -> Iterator[int]:
    """Yield where the blocks of inputs lie, of at most 32."""
    return (_port(_INPUTS, index) for index in range(min(count, MAX_PORTS)))


def output_offsets(count: int) -> Iterator[int]:
    """Yield where the blocks of outputs lie, of at most 32."""
    return (_port(_OUTPUTS, index) for index in range(min(count, MAX_PORTS)))


def field_at(offset: int) -> str:
    """Return the name of the field that has a byte of the metadata: ``model.batch``."""
    for start, size, name, block in _BLOCKS:
        if start <= offset < start + size:
            return f"{name}.{block.field_at(offset - start)}"
    for name, starts, port in (("input", _INPUTS, InputBlock), ("output", _OUTPUTS, OutputBlock)):
        for index in range(MAX_PORTS):
            inner = offset - _port(starts, index)
            if 0 <= inner < _PORT_BYTES:
                return f"{name} {index}.{port.field_at(inner)}"
    return "reserved"


def _port(starts: tuple[int, int], index: int) -> int:
    if index < _FIRST_PORTS:
        return starts[0] + _PORT_BYTES * index
    return starts[1] + _PORT_BYTES * (index - _FIRST_PORTS)
