"""The binaries of compiled models, read by the table of the driver's metadata alone."""

from __future__ import annotations

import struct
from itertools import pairwise
from math import ceil, prod

import pytest

from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS
from nnhal.types import OperandType
from nnhal_mlip.model_compiler import ModelCompiler
from nnhal_mlip.options import read_options
from tests.support.mlip_hal import ZERO_POINTS, mlip_examples

INT8, FP16, FP32 = 1, 7, 8
MEBIBYTE, PAGE = 1 << 20, 16 << 10
CASES = ["CONV_2D of a batch", "CONV_2D NCHW", "FULLY_CONNECTED", "ADD of a row", "TRANSPOSE of a matrix", "RELU"]


def crc32c(data: bytes) -> int:
    """Castagnoli's, bit by bit, from 0 and without a final inversion."""
    found = 0
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F63B78 if found & 1 else 0)
    return found


def read(form: str, data: bytes, offset: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{form}", data, offset)


@pytest.mark.parametrize("code", [F16, F32, Q8A, Q8AS])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{"tiles": "4"}, {"tiles": "2", "wb_pin_ocm": "1"}])
def test_a_binary_is_one_of_the_drivers(code: OperandType, name: str, options: dict[str, str]) -> None:
    model = mlip_examples(code)[name]
    compiled = ModelCompiler(read_options(options)).compile(model)
    (step,) = compiled.steps
    data, main = step.binary, model.model.main
    assert data[:4] == b"MRVL"
    assert read("4BI", data, 4) == (2, 3, 0, 1, 8192)
    assert read("I", data, 28) == (128,)
    assert read("2I", data, 248) == (crc32c(data[256:]), crc32c(data[:252]))

    sections = [read("2I", data, offset) for offset in (512, 576, 640)]
    sections.append(read("2I", data, 1216 + 8))
    assert all(size and begin % 128 == 0 for begin, size in sections)
    assert all(begin + size <= after for (begin, size), (after, _) in pairwise([*sections, (len(data), 0)]))
    assert read("QIIB", data, 1216)[3] == 1
    code_bytes, weight_bytes = read("2I", data, 256 + 68)
    assert (code_bytes, weight_bytes) == (sum(size for _, size in sections[:3]), sections[3][1])

    ocm_start, ocm_end, *flags = read("2I6B", data, 256 + 76)
    assert (ocm_start, ocm_end) == (0, MEBIBYTE - 1)
    first, last, batch, inputs, outputs = *flags[2:], data[256 + 90]
    shape = main.operands[main.input_indexes[-1]].dimensions
    assert flags[:2] == [1, 1]
    assert (first, batch % 256) == (0, shape[0])
    assert last + 1 <= int(options["tiles"])
    assert (inputs, outputs) == (len(main.input_indexes), len(main.output_indexes))
    floor, wb_start, wb_end = read("3Q", data, 256 + 112)
    assert ceil((wb_end - wb_start + 1) / PAGE) + ceil((MEBIBYTE - floor) / PAGE) <= MEBIBYTE // PAGE
    input_bytes, output_bytes = read("2I", data, 256 + 92)
    assert read("3Q", data, 256 + 152) == (0, input_bytes - 1, 0)
    assert read("Q", data, 256 + 176) == (output_bytes - 1,)
    assert read("2Q", data, 256 + 136) == (0, weight_bytes - 1)

    held = INT8 if code in ZERO_POINTS else FP16
    width = 1 if held == INT8 else 2
    for number, index in enumerate(main.input_indexes):
        at, operand = 1280 + 64 * number, main.operands[index]
        begin, relocatable, quantize, given, wanted, scale, layout = struct.unpack_from("<Q4BfB", data, at)
        assert (relocatable, quantize, given, wanted) == (1, 1, FP32, held)
        assert scale == pytest.approx(1 / operand.scale if operand.scale else 1)
        assert layout in (1, 2)
        assert prod(read("4I", data, at + 20)) == prod(operand.dimensions)
        assert read("Q", data, at + 56)[0] - begin + 1 == width * prod(operand.dimensions)
    for number, index in enumerate(main.output_indexes):
        at, operand = 1792 + 64 * number, main.operands[index]
        begin, relocatable, dequantize, returned, produced, scale, count = struct.unpack_from("<Q4BfI", data, at)
        assert (relocatable, dequantize, returned, produced) == (1, 1, FP32, held)
        assert scale == pytest.approx(operand.scale or 1)
        assert read("Q", data, at + 40)[0] - begin + 1 == width * count
