from __future__ import annotations

from struct import pack_into, unpack_from

from nnhal_mlip.program.binary import read_binary, write_binary
from nnhal_mlip.program.metadata import (
    METADATA_BYTES,
    decode_metadata,
    encode_metadata,
    field_at,
    input_offsets,
    output_offsets,
)
from nnhal_mlip.program.program import TensorType
from tests.support.mlip_small_program import small_program


def test_the_metadata_are_where_the_driver_looks() -> None:
    program, weights = small_program(TensorType.INT8, pinned=True)
    data = write_binary(program, weights)
    assert data[:4] == b"MRVL"
    assert tuple(data[4:8]) == (2, 3, 0, 1)
    assert unpack_from("<I", data, 8) == (8192,)
    assert unpack_from("<I", data, 28) == (128,)
    assert data[256:275] == b"tvmgen_mrvl_main_0\0"
    assert unpack_from("<2I", data, 256 + 76) == (0, 0xFFFFF)
    assert tuple(data[256 + 84 : 256 + 91]) == (1, 1, 0, 1, 1, 1, 1)
    assert unpack_from("<2I", data, 256 + 92) == (1024, 256)
    assert unpack_from("<I", data, 256 + 104) == (2,)
    assert unpack_from("<Q", data, 256 + 112) == (0x10000,)
    assert unpack_from("<2Q", data, 256 + 120) == (0, len(weights) - 1)
    assert unpack_from("<2Q", data, 256 + 152) == (0, 1023)
    for at in (512, 576, 640):
        offset, size = unpack_from("<2I", data, at)
        assert size
        assert data[offset : offset + 3] == b"NNP"
    memory, offset, size, relocatable = unpack_from("<QIIB", data, 1216)
    assert (memory, relocatable) == (0, 1)
    assert data[offset : offset + size] == weights
    assert unpack_from("<Q4BfB3x4I4x16sQ", data, 1280) == (
        *(0, 1, 1, TensorType.FP32, TensorType.INT8, 8.0, 2, 1, 8, 8, 16),
        b"data".ljust(16, b"\0"),
        1023,
    )
    assert unpack_from("<Q4BfI20xQ16s", data, 1792) == (
        *(0, 1, 1, TensorType.FP32, TensorType.INT8, 0.125, 256, 255),
        b"result".ljust(16, b"\0"),
    )


def test_a_range_without_bytes_has_none_by_the_drivers_arithmetic() -> None:
    model = read_binary(write_binary(*small_program())).metadata.model
    for start, end in (model.ocm_weights, model.ddr_scratch):
        assert end - start + 1 == 0


def test_metadata_are_encoded_as_they_were_decoded() -> None:
    data = write_binary(*small_program())
    assert encode_metadata(decode_metadata(data)) == data[:METADATA_BYTES]


def test_any_bytes_can_be_decoded() -> None:
    metadata = decode_metadata(bytes([255]) * METADATA_BYTES)
    assert len(metadata.inputs) == len(metadata.outputs) == 32


def test_inputs_and_outputs_from_the_ninth_on_lie_apart() -> None:
    assert list(input_offsets(32))[6:10] == [1664, 1728, 4096, 4160]
    assert list(output_offsets(32))[6:10] == [2176, 2240, 5632, 5696]


def test_a_byte_is_named_by_its_field() -> None:
    names = {0: "header.magic", 250: "header.payload_crc", 344: "model.batch", 580: "main section.file_bytes"}
    names |= {1280 + 64 + 57: "input 1.memory_end", 5632 + 16: "output 8.elements", 8170: "versions.compiler_version"}
    names |= {40: "header.reserved", 800: "reserved"}
    assert {offset: field_at(offset) for offset in names} == names


def test_a_field_takes_the_bytes_that_it_has() -> None:
    data = bytearray(METADATA_BYTES)
    pack_into("<2Q", data, 256 + 200, 1 << 40, (1 << 64) - 1)
    assert decode_metadata(bytes(data)).model.ddr_scratch == (1 << 40, (1 << 64) - 1)
