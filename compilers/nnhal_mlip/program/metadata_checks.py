"""Checks of the public driver before it loads a model, in its order (DPDK, cn10k_ml_model_metadata_check)."""

from __future__ import annotations

from nnhal_mlip.program.crc32c import crc32c
from nnhal_mlip.program.errors import BinaryError, BinaryFault
from nnhal_mlip.program.metadata import (
    HEADER_BYTES,
    MlipMetadata,
    decode_metadata,
    input_offsets,
    output_offsets,
)
from nnhal_mlip.program.metadata_blocks import Version
from nnhal_mlip.program.program import TensorType

MAGIC = b"MRVL"
TARGET_MLIP = 128
LEAST_VERSION: Version = (2, 1, 0, 0)
MANY_PORTS_VERSION: Version = (2, 3, 0, 1)
"""From it on there may be 32 inputs and outputs, before it 8."""

_TYPES = "a type from 1 (int8) to 10 (uint64)"


def check_metadata(data: bytes) -> MlipMetadata:
    """Return the metadata of a binary that the driver would accept.

    A CRC of 0 is not checked, as by the driver; ``read_binary`` is stricter.

    Raises:
        BinaryError: the driver would refuse it; ``fault`` says by which check.
    """
    metadata = decode_metadata(data)
    header = metadata.header
    if header.header_crc:
        check_header_crc(data, header.header_crc)
    if header.payload_crc:
        check_payload_crc(data, header.payload_crc)
    if header.magic != MAGIC:
        raise BinaryError(BinaryFault.MAGIC, "magic", header.magic, f"{MAGIC!r}", 0)
    if header.target != TARGET_MLIP:
        raise BinaryError(BinaryFault.ARCHITECTURE, "target architecture", header.target, f"{TARGET_MLIP} (MLIP)", 28)
    if header.version < LEAST_VERSION:
        raise BinaryError(
            BinaryFault.VERSION, "version", _dotted(header.version), f"{_dotted(LEAST_VERSION)} or later", 4
        )
    _sections(metadata)
    _counts(metadata)
    _types(metadata)
    _relocatable(metadata)
    return metadata


def check_header_crc(data: bytes, stored: int) -> None:
    if (found := crc32c(memoryview(data)[: HEADER_BYTES - 4])) != stored:
        raise BinaryError(BinaryFault.HEADER_CRC, "header CRC", f"{stored:#010x}", f"{found:#010x}", HEADER_BYTES - 4)


def check_payload_crc(data: bytes, stored: int) -> None:
    """Refuse a binary whose bytes after the header do not have the CRC."""
    if (found := crc32c(memoryview(data)[HEADER_BYTES:])) != stored:
        raise BinaryError(BinaryFault.PAYLOAD_CRC, "payload CRC", f"{stored:#010x}", f"{found:#010x}", HEADER_BYTES - 8)


def _sections(metadata: MlipMetadata) -> None:
    sections = (("init", metadata.init, 512), ("main", metadata.main, 576), ("finish", metadata.finish, 640))
    for name, section, offset in sections:
        if not section.file_bytes:
            raise BinaryError(BinaryFault.SECTION, f"bytes of the {name} section", 0, "at least 1", offset + 4)
    if not metadata.weights.file_bytes:
        raise BinaryError(BinaryFault.SECTION, "bytes of weights and biases", 0, "at least 1", 1216 + 12)


def _counts(metadata: MlipMetadata) -> None:
    most = 8 if metadata.header.version < MANY_PORTS_VERSION else 32
    for name, count, offset in (("inputs", metadata.model.inputs, 89), ("outputs", metadata.model.outputs, 90)):
        if count > most:
            raise BinaryError(BinaryFault.COUNT, f"number of {name}", count, f"at most {most}", 256 + offset)


def _types(metadata: MlipMetadata) -> None:
    known = {each.value for each in TensorType}
    for index, (start, read) in enumerate(zip(input_offsets(32), metadata.inputs, strict=False)):
        for name, value, offset in (("given", read.given, 10), ("wanted", read.wanted, 11)):
            if value not in known:
                raise BinaryError(BinaryFault.TYPE, f"type {name} of input {index}", value, _TYPES, start + offset)
    for index, (start, written) in enumerate(zip(output_offsets(32), metadata.outputs, strict=False)):
        for name, value, offset in (("returned", written.returned, 10), ("produced", written.produced, 11)):
            if value not in known:
                raise BinaryError(BinaryFault.TYPE, f"type {name} of output {index}", value, _TYPES, start + offset)


def _relocatable(metadata: MlipMetadata) -> None:
    flags = [("weights and biases", metadata.weights.relocatable, 1216 + 16)]
    flags += [
        (f"input {index}", read.relocatable, start + 8)
        for index, (start, read) in enumerate(zip(input_offsets(32), metadata.inputs, strict=False))
    ]
    flags += [
        (f"output {index}", written.relocatable, start + 8)
        for index, (start, written) in enumerate(zip(output_offsets(32), metadata.outputs, strict=False))
    ]
    for name, value, offset in flags:
        if value != 1:
            raise BinaryError(BinaryFault.RELOCATABLE, f"relocatable flag of {name}", value, "1", offset)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
