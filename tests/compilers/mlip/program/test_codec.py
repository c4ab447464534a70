from __future__ import annotations

import random

import pytest

from nnhal_mlip.program.codec import CodeOffsets, ProgramCode, decode_program, encode_program
from nnhal_mlip.program.errors import BinaryError, ProgramError
from nnhal_mlip.program.program import TensorType
from nnhal_mlip.program.program_checks import check_program
from tests.support.mlip_small_program import small_program

OFFSETS = CodeOffsets(8192, 8320, 8832)


@pytest.mark.parametrize("element_type", [TensorType.FP16, TensorType.INT8])
@pytest.mark.parametrize("pinned", [False, True])
def test_code_stands_for_its_program(element_type: TensorType, pinned: bool) -> None:
    program, weights = small_program(element_type, pinned=pinned)
    assert decode_program(encode_program(program, len(weights)), OFFSETS) == (program, len(weights))


def test_every_section_says_something() -> None:
    program, weights = small_program()
    assert all(encode_program(program, len(weights)))


def test_sections_of_two_programs_are_told_apart() -> None:
    program, weights = small_program()
    code = encode_program(program, len(weights))
    with pytest.raises(BinaryError, match=r"the main section's magic is b'NNPI', expected b'NNPM' \(byte 8320 of"):
        decode_program(code._replace(main=code.init), OFFSETS)
    longer = encode_program(program, len(weights))._replace(finish=small_finish())
    with pytest.raises(BinaryError, match="the finish section's transfers and stages"):
        decode_program(longer, OFFSETS)


def small_finish() -> bytes:
    """The finish section of another program, which has fewer transfers."""
    program, weights = small_program()
    fewer = type(program)(**{name: getattr(program, name) for name in program.__slots__} | {"transfers": ()})
    return encode_program(fewer, len(weights)).finish


@pytest.mark.parametrize("element_type", [TensorType.FP16, TensorType.INT8])
@pytest.mark.parametrize("section", ProgramCode._fields)
def test_damaged_code_is_refused_or_a_program_that_can_be_checked(section: str, element_type: TensorType) -> None:
    program, weights = small_program(element_type)
    code = encode_program(program, len(weights))
    sound: bytes = getattr(code, section)
    numbers = random.Random(section)
    refused = 0
    for _ in range(500):
        damaged = bytearray(sound)
        for _ in range(numbers.randint(1, 3)):
            damaged[numbers.randrange(len(damaged))] = numbers.choice((0, 1, 127, 128, 255, numbers.randrange(256)))
        try:
            found, count = decode_program(code._replace(**{section: bytes(damaged)}), OFFSETS)
            check_program(found, count)
        except (BinaryError, ProgramError):
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("section", ProgramCode._fields)
def test_a_section_that_is_cut_is_refused(section: str) -> None:
    program, weights = small_program()
    code = encode_program(program, len(weights))
    sound: bytes = getattr(code, section)
    for length in range(len(sound)):
        with pytest.raises(BinaryError):
            decode_program(code._replace(**{section: sound[:length]}), OFFSETS)
