from __future__ import annotations

import pytest

from nnhal_mlip.program.binary import write_binary
from nnhal_mlip.program.errors import BinaryError, BinaryFault
from nnhal_mlip.program.metadata import METADATA_BYTES, sealed
from nnhal_mlip.program.metadata_checks import check_metadata
from tests.support.mlip_small_program import small_program

DAMAGE = [
    (252, b"\1\2\3\4", BinaryFault.HEADER_CRC),
    (9000, b"damage", BinaryFault.PAYLOAD_CRC),
    (0, b"MRVM", BinaryFault.MAGIC),
    (28, b"\x01", BinaryFault.ARCHITECTURE),
    (4, b"\2\0\xff\xff", BinaryFault.VERSION),
    (516, bytes(4), BinaryFault.SECTION),
    (580, bytes(4), BinaryFault.SECTION),
    (644, bytes(4), BinaryFault.SECTION),
    (1228, bytes(4), BinaryFault.SECTION),
    (256 + 89, b"\x21", BinaryFault.COUNT),
    (256 + 90, b"\x21", BinaryFault.COUNT),
    (1280 + 10, b"\0", BinaryFault.TYPE),
    (1280 + 11, b"\x0b", BinaryFault.TYPE),
    (1792 + 10, b"\x0b", BinaryFault.TYPE),
    (1792 + 11, b"\0", BinaryFault.TYPE),
    (1216 + 16, b"\0", BinaryFault.RELOCATABLE),
    (1280 + 8, b"\2", BinaryFault.RELOCATABLE),
    (1792 + 8, b"\0", BinaryFault.RELOCATABLE),
]
"""Offset, bytes and fault, in the order of the driver's checks."""


def damaged(data: bytes, offset: int, content: bytes) -> bytes:
    return data[:offset] + content + data[offset + len(content) :]


def fault_of(data: bytes) -> BinaryFault:
    with pytest.raises(BinaryError) as caught:
        check_metadata(data)
    return caught.value.fault


def test_a_binary_of_ours_is_accepted() -> None:
    assert check_metadata(write_binary(*small_program())).header.target == 128


@pytest.mark.parametrize("offset, content, fault", DAMAGE)
def test_each_check_has_its_error(offset: int, content: bytes, fault: BinaryFault) -> None:
    found = damaged(write_binary(*small_program()), offset, content)
    assert fault_of(found if "CRC" in fault.name else sealed(found)) is fault


def test_the_checks_come_in_the_drivers_order() -> None:
    data = write_binary(*small_program())
    for offset, content, fault in reversed(DAMAGE[2:]):
        data = sealed(damaged(data, offset, content))
        assert fault_of(data) is fault
    for offset, content, fault in (DAMAGE[1], DAMAGE[0]):
        data = damaged(data, offset, content)
        assert fault_of(data) is fault


def test_a_crc_of_0_is_not_checked() -> None:
    data = damaged(write_binary(*small_program()), 248, bytes(8))
    assert check_metadata(damaged(data, 9000, b"damage")).model.batch == 1


def test_a_version_before_many_ports_has_8_at_most() -> None:
    data = damaged(write_binary(*small_program()), 256 + 89, b"\x09")
    assert fault_of(sealed(damaged(data, 4, b"\2\3\0\0"))) is BinaryFault.COUNT
    assert fault_of(sealed(data)) is BinaryFault.TYPE


def test_less_than_metadata_is_refused() -> None:
    assert fault_of(bytes(METADATA_BYTES - 1)) is BinaryFault.SIZE
