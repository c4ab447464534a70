"""Places of values, and growth of their memory."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import ErrorStatus, OperandType, RequestArgument
from nnhal_service.runtime.memory.requests import request_of
from nnhal_service.runtime.memory.slots import DeviceSlot, Element, GrowingSlot, HostSlot, MemoryRange, OmittedSlot
from tests.service.buffers import TOKEN, Buffer

F32 = Element(OperandType.TENSOR_FLOAT32, {})
"""The type of the values, which have four bytes each."""


def test_a_value_of_unknown_size_begins_with_one_element() -> None:
    slot = GrowingSlot(F32, (0, 3))
    assert slot.to_write(own=True).length == 4


def test_a_slot_grows_to_the_reported_need_and_a_fifth_more_and_keeps_that_size() -> None:
    slot = GrowingSlot(F32, (0,))
    slot.to_write(own=True)
    assert slot.learn((10,))
    memory = slot.to_write(own=True).pool
    slot.written(own=True, dimensions=(10,))
    assert slot.to_read(own=True) == MemoryRange(memory, 0, 40)
    slot.forget()
    assert slot.to_write(own=True) == MemoryRange(memory, 0, 48)
    slot.written(own=True, dimensions=(3,))
    assert slot.to_read(own=True) == MemoryRange(memory, 0, 12)


def test_a_slot_doubles_if_the_need_is_not_reported() -> None:
    slot = GrowingSlot(F32, ())
    slot.to_write(own=True)
    assert [slot.learn((0, 2)) and slot.to_write(own=True).length for _ in range(3)] == [8, 16, 32]


def test_a_slot_does_not_grow_if_the_need_is_met() -> None:
    slot = GrowingSlot(F32, (0,))
    slot.to_write(own=True)
    assert slot.learn((10,))
    assert not slot.learn((10,))


def test_dimensions_that_contradict_the_known_ones_are_refused() -> None:
    slot = GrowingSlot(F32, (0, 3))
    slot.to_write(own=True)
    with pytest.raises(HalError, match=r"\[2, 4\] was written, expected \[\?, 3\]"):
        slot.written(own=True, dimensions=(2, 4))


def test_a_result_is_read_with_its_own_length() -> None:
    memory = create_ashmem(64)
    slot = HostSlot(F32, (0,), MemoryRange(memory, 16, 40), "y")
    assert slot.to_write(own=True) == MemoryRange(memory, 16, 40)
    slot.written(own=True, dimensions=(5,))
    assert slot.to_read(own=True) == MemoryRange(memory, 16, 20)
    slot.written(own=True, dimensions=(11,))
    with pytest.raises(HalError, match="takes 44 bytes, and its memory has 40"):
        slot.to_read(own=True)


def test_a_slot_stores_values_that_fit() -> None:
    slot = HostSlot(F32, (), MemoryRange(create_ashmem(8), 4, 4))
    assert slot.store(np.full(4, 7, np.uint8), (1,))
    assert slot.read().tolist() == [7] * 4
    assert not slot.store(np.zeros(8, np.uint8), (2,))


def test_an_omitted_input_has_no_value_and_each_pool_is_listed_once() -> None:
    memory = create_ashmem(64)
    first, second = HostSlot(F32, (2,), MemoryRange(memory, 0, 8)), HostSlot(F32, (2,), MemoryRange(memory, 8, 8))
    request = request_of([first, OmittedSlot(F32, ())], [second], own=True)
    assert request.inputs[1] == RequestArgument(has_no_value=True)
    assert request.pools == (memory,)
    assert [argument.location.offset for argument in (request.inputs[0], *request.outputs)] == [0, 8]


def test_a_device_buffer_is_named_by_its_token_on_its_own_device() -> None:
    buffer = Buffer("npu", np.zeros(2, np.float32))
    slot = DeviceSlot(F32, (2,), buffer, "y", (2,))
    assert slot.to_write(own=True) == slot.to_read(own=True) == MemoryRange(TOKEN)
    slot.written(own=True, dimensions=())
    assert buffer.notes == [((2,), True)]


@pytest.mark.contract("FB-14")
def test_a_device_buffer_is_copied_over_the_host_for_other_devices() -> None:
    buffer = Buffer("npu", np.array([1, 2], np.float32))
    slot = DeviceSlot(F32, (2,), buffer, "y", (2,))
    assert slot.read().view(np.float32).tolist() == [1, 2]
    place = slot.to_write(own=False)
    assert (place.offset, place.length) == (0, 8)
    assert not isinstance(place.pool, int)
    open_pool(place.pool, writable=True).write(0, np.array([3, 4], np.float32).view(np.uint8))
    slot.written(own=False, dimensions=(2,))
    assert buffer.values(np.float32).tolist() == [3, 4]
    assert slot.store(np.array([5, 6], np.float32).view(np.uint8), (2,))
    assert buffer.values(np.float32).tolist() == [5, 6]


@pytest.mark.contract("FB-14")
def test_a_device_buffer_of_unknown_dimensions_cannot_be_written_by_other_devices() -> None:
    slot = DeviceSlot(F32, (), Buffer("npu", np.zeros(2, np.float32)), "y", (0,))
    with pytest.raises(HalError, match=r"of npu has dimensions \[\?\].*expected all dimensions to be known") as caught:
        slot.to_write(own=False)
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE
