from __future__ import annotations

import random
import zlib
from dataclasses import replace

import pytest

from nnhal_mlip.program.binary import MlipBinary, read_binary, write_binary
from nnhal_mlip.program.errors import BinaryError, BinaryFault, ProgramError
from nnhal_mlip.program.metadata import METADATA_BYTES, sealed
from nnhal_mlip.program.program import MlipProgram, TensorType
from tests.support.mlip_small_program import small_program

CRCS = range(248, 256)


def small_binary() -> bytes:
    return write_binary(*small_program())


def flipped(data: bytes, place: int, bits: int = 1) -> bytes:
    damaged = bytearray(data)
    damaged[place] ^= bits
    return bytes(damaged)


def read_or_refused(data: bytes) -> MlipBinary | BinaryError:
    try:
        return read_binary(data)
    except BinaryError as error:
        return error


@pytest.mark.parametrize("element_type", [TensorType.FP16, TensorType.INT8])
@pytest.mark.parametrize("pinned", [False, True])
def test_a_binary_holds_its_program_and_weights(element_type: TensorType, pinned: bool) -> None:
    program, weights = small_program(element_type, pinned=pinned)
    binary = read_binary(write_binary(program, weights))
    assert binary.program == program
    assert binary.weights == weights


def test_a_program_without_weights_has_a_binary_whose_section_is_not_empty() -> None:
    program, _ = small_program()
    pool = replace(
        program,
        transfers=tuple(replace(each, after_stage=1) for each in program.transfers[3:]),
        stages=(replace(program.stages[1], after_transfers=0),),
    )
    binary = read_binary(write_binary(pool, b""))
    assert (binary.program, binary.weights) == (pool, b"")
    assert binary.metadata.weights.file_bytes > 0


def test_two_encodings_are_the_same_bytes() -> None:
    assert small_binary() == small_binary()


def test_the_uuid_tells_contents_apart() -> None:
    program, weights = small_program()
    uuids = {
        read_binary(write_binary(each, data)).metadata.header.uuid
        for each, data in ((program, weights), (program, flipped(weights, 7)), (replace(program, name="x"), weights))
    }
    assert len(uuids) == 3


def test_names_of_any_length_and_script_are_kept() -> None:
    program, weights = small_program()
    named = replace(program, name="ä" * 100, inputs=(replace(program.inputs[0], name="データ" * 20),))
    binary = read_binary(write_binary(named, weights))
    assert binary.program == named
    assert binary.metadata.model.name.decode() == "ä" * 31
    assert binary.metadata.inputs[0].name.decode() == "データ" + "デー"


@pytest.mark.slow
def test_damage_at_any_byte_is_refused() -> None:
    data = small_binary()
    for place in (*range(METADATA_BYTES), *range(METADATA_BYTES, len(data), 11)):
        assert isinstance(read_or_refused(flipped(data, place, 1 << place % 8)), BinaryError), place


def test_a_binary_that_is_cut_or_longer_is_refused() -> None:
    data = small_binary()
    for length in (*range(0, METADATA_BYTES, 397), *range(METADATA_BYTES - 2, len(data), 131), len(data) - 1):
        with pytest.raises(BinaryError):
            read_binary(data[:length])
        with pytest.raises(BinaryError):
            read_binary(sealed(data[:length]) if length >= METADATA_BYTES else data[:length])
    with pytest.raises(BinaryError):
        read_binary(data + b"\0")
    with pytest.raises(BinaryError) as caught:
        read_binary(sealed(data + b"x"))
    assert caught.value.fault is BinaryFault.SIZE


def test_a_crc_that_says_not_checked_is_refused() -> None:
    data = bytearray(small_binary())
    data[252:256] = bytes(4)
    with pytest.raises(BinaryError) as caught:
        read_binary(bytes(data))
    assert caught.value.fault is BinaryFault.HEADER_CRC


def test_metadata_that_contradict_the_program_are_refused_with_sound_crcs() -> None:
    data = small_binary()
    written = [place for place in range(METADATA_BYTES) if data[place] and place not in CRCS]
    for place in (*written, *range(0, METADATA_BYTES, 61)):
        assert place in CRCS or isinstance(read_or_refused(sealed(flipped(data, place, 4))), BinaryError), place


def test_a_contradiction_is_named_by_its_field_and_place() -> None:
    with pytest.raises(BinaryError, match=r"a byte of model\.batch is 3, expected 1, .*byte 344") as caught:
        read_binary(sealed(flipped(small_binary(), 256 + 88, 2)))
    assert caught.value.fault is BinaryFault.METADATA
    assert caught.value.offset == 344


@pytest.mark.parametrize("element_type", [TensorType.FP16, TensorType.INT8])
def test_random_damage_with_sound_crcs_is_refused_or_another_program_that_can_run(element_type: TensorType) -> None:
    program, weights = small_program(element_type)
    data = write_binary(program, weights)
    numbers = random.Random(zlib.crc32(data))
    refused: set[BinaryFault] = set()
    code_end = METADATA_BYTES + 1024
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(numbers.randint(1, 3)):
            damaged[numbers.randrange(METADATA_BYTES, code_end)] = numbers.choice(
                (0, 1, 127, 128, 255, numbers.randrange(256))
            )
        found = read_or_refused(sealed(bytes(damaged)))
        if isinstance(found, BinaryError):
            refused.add(found.fault)
        else:
            assert write_binary(found.program, found.weights) == data
    assert refused >= {BinaryFault.CODE, BinaryFault.METADATA, BinaryFault.SECTION}


def test_a_program_that_cannot_run_is_not_written() -> None:
    program, weights = small_program()
    with pytest.raises(ProgramError, match="DDR bytes of transfer 0"):
        write_binary(program, weights[:-1])


def test_a_program_that_cannot_run_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    program, weights = small_program()
    deadlock = replace(program, stages=(replace(program.stages[0], after_transfers=5), program.stages[1]))
    with pytest.raises(BinaryError, match="transfer 3 is after 2 stages") as caught:
        read_binary(unchecked(monkeypatch, deadlock, weights))
    assert caught.value.fault is BinaryFault.PROGRAM


def unchecked(monkeypatch: pytest.MonkeyPatch, program: MlipProgram, weights: bytes) -> bytes:
    """The binary of a program that may not be able to run."""
    with monkeypatch.context() as patch:
        patch.setattr("nnhal_mlip.program.binary.check_program", lambda *_: None)
        return write_binary(program, weights)
