from __future__ import annotations

import pytest
from hypothesis import given

from nnhal.codec import memory_from_wire, memory_to_wire
from nnhal.codec.memory import location_from_wire, location_to_wire
from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.types import DataLocation, ErrorStatus, Memory
from nnhal.v1 import memory_pb2 as wire
from tests.hal.values import LOCATIONS, MEMORIES, Numbers


@given(MEMORIES)
def test_memory_of_every_kind_comes_back(memory: Memory) -> None:
    numbers = Numbers()
    message = wire.Memory.FromString(memory_to_wire(memory, numbers.issue).SerializeToString())
    assert memory_from_wire(message, numbers.resolve) == memory


@given(LOCATIONS)
def test_locations_come_back(location: DataLocation) -> None:
    assert location_from_wire(location_to_wire(location)) == location


def test_memory_of_no_kind_is_refused() -> None:
    with pytest.raises(
        HalError, match="the memory has no kind, expected ashmem, mappable_file or hardware_buffer"
    ) as got:
        memory_from_wire(wire.Memory(), Numbers().resolve)
    assert got.value.status == ErrorStatus.INVALID_ARGUMENT


def test_no_descriptor_number_of_this_process_is_on_the_wire() -> None:
    memory = create_ashmem(64)
    assert memory_to_wire(memory, lambda _: 4711).ashmem.descriptor_id == 4711
