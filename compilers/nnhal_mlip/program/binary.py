"""A program and its weights as a binary in the form of the public driver's models.

Metadata, then the sections init, main and finish, then weights and biases, each from a multiple of 128 bytes on with
zeros between. The same program and weights always give the same bytes: the uuid is a digest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.memory.arena import round_up
from nnhal_mlip.program.codec import CodeOffsets, ProgramCode, decode_program, encode_program
from nnhal_mlip.program.errors import BinaryError, BinaryFault, ProgramError
from nnhal_mlip.program.metadata import (
    HEADER_BYTES,
    METADATA_BYTES,
    MlipMetadata,
    encode_metadata,
    field_at,
    sealed,
)
from nnhal_mlip.program.metadata_blocks import SectionBlock, WeightsBlock
from nnhal_mlip.program.metadata_checks import check_header_crc, check_metadata, check_payload_crc
from nnhal_mlip.program.program import MlipProgram
from nnhal_mlip.program.program_checks import check_program
from nnhal_mlip.program.program_metadata import metadata_of

ALIGNMENT = 128
"""The alignment of the sections, which is that of all buffers of the driver."""

_NAMES = ("init section", "main section", "finish section", "section of weights and biases")
_CRC_BYTES = 8
"""At the end of the header."""


@dataclass(frozen=True, slots=True)
class MlipBinary:
    """Content of a binary."""

    metadata: MlipMetadata
    program: MlipProgram
    weights: bytes


def write_binary(program: MlipProgram, weights: bytes) -> bytes:
    """Return the binary of a program.

    Raises:
        ProgramError: the program cannot run.
    """
    check_program(program, len(weights))
    code = encode_program(program, len(weights))
    content = weights or bytes(ALIGNMENT)  # the driver wants some
    offsets = _offsets([*map(len, code), len(content)])
    metadata = metadata_of(program, code, content, CodeOffsets(*offsets[:3]), offsets[3])
    binary = bytearray(encode_metadata(metadata))
    for offset, section in zip(offsets, (*code, content), strict=True):
        binary += bytes(offset - len(binary))
        binary += section
    return sealed(binary)


def read_binary(data: bytes) -> MlipBinary:
    """Return what a binary holds.

    Raises:
        BinaryError: it is damaged anywhere, or not one that ``write_binary`` writes.
    """
    metadata = check_metadata(data)
    if not metadata.header.header_crc:
        check_header_crc(data, 0)
    if not metadata.header.payload_crc:
        check_payload_crc(data, 0)
    sections = _sections(data, metadata)
    code, content = ProgramCode(*sections[:3]), sections[3]
    offsets = CodeOffsets(metadata.init.file_offset, metadata.main.file_offset, metadata.finish.file_offset)
    program, weight_bytes = decode_program(code, offsets)
    if len(content) != (weight_bytes or ALIGNMENT):
        expected = f"{weight_bytes or ALIGNMENT}, as in the init section"
        place = metadata.weights.file_offset
        raise BinaryError(BinaryFault.SECTION, "bytes of weights and biases", len(content), expected, place)
    try:
        check_program(program, weight_bytes)
    except ProgramError as error:
        raise BinaryError(BinaryFault.PROGRAM, error.what, error.got, error.expected, offsets.main) from error
    wanted = metadata_of(program, code, content, offsets, metadata.weights.file_offset)
    _same_metadata(data, encode_metadata(wanted))
    return MlipBinary(metadata, program, content[:weight_bytes])


def _offsets(lengths: Sequence[int]) -> list[int]:
    offsets = []
    end = METADATA_BYTES
    for length in lengths:
        offsets.append(round_up(end, ALIGNMENT))
        end = offsets[-1] + length
    return offsets


def _sections(data: bytes, metadata: MlipMetadata) -> list[bytes]:
    """Return the sections and the weights, which must lie as they are written."""
    blocks: tuple[SectionBlock | WeightsBlock, ...] = (metadata.init, metadata.main, metadata.finish, metadata.weights)
    end = METADATA_BYTES
    for name, block, offset in zip(_NAMES, blocks, _offsets([each.file_bytes for each in blocks]), strict=True):
        if block.file_offset != offset:
            raise BinaryError(BinaryFault.SECTION, f"offset of the {name}", block.file_offset, f"{offset}", end)
        if len(data) < offset + block.file_bytes:
            expected = f"at least {offset + block.file_bytes} for the {name}"
            raise BinaryError(BinaryFault.SIZE, "the binary's length", len(data), expected, len(data))
        if (gap := data[end:offset]).strip(b"\0"):
            raise BinaryError(BinaryFault.SECTION, f"the {len(gap)} bytes before the {name}", gap, "zeros", end)
        end = offset + block.file_bytes
    if len(data) != end:
        raise BinaryError(BinaryFault.SIZE, "the binary's length", len(data), f"{end}", end)
    return [data[each.file_offset : each.file_offset + each.file_bytes] for each in blocks]


def _same_metadata(data: bytes, wanted: bytes) -> None:
    """Refuse metadata that contradict the program, but for the CRCs."""
    for offset, (found, expected) in enumerate(zip(data[:METADATA_BYTES], wanted, strict=True)):
        if found != expected and not HEADER_BYTES - _CRC_BYTES <= offset < HEADER_BYTES:
            what = f"a byte of {field_at(offset)}"
            raise BinaryError(BinaryFault.METADATA, what, found, f"{expected}, as the program says", offset)
