from __future__ import annotations

import os
import weakref

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.shares import Shares
from nnhal.types import ErrorStatus
from nnhal_hosting.descriptors import DescriptorTable


def table_of(count: int) -> DescriptorTable:
    return DescriptorTable(Shares(count, "descriptors", "NNHAL_LIMIT"))


def memfds(count: int) -> list[Descriptor]:
    return [Descriptor(os.memfd_create("test")) for _ in range(count)]


def test_a_descriptor_that_was_put_stays_until_it_is_dropped() -> None:
    table = table_of(8)
    first, second = memfds(2)
    numbers = table.put([first, second])
    assert [table.get(number) for number in numbers] == [first, second]
    assert table.get(numbers[0]) is first
    table.drop([numbers[0]])
    with pytest.raises(HalError, match=f"descriptor {numbers[0]} was not put on this link, or was dropped") as refusal:
        table.get(numbers[0])
    assert refusal.value.status == ErrorStatus.INVALID_ARGUMENT
    assert table.get(numbers[1]) is second


def test_a_dropped_descriptor_is_closed_when_nothing_else_uses_it() -> None:
    table = table_of(8)
    (number,) = table.put(memfds(1))
    used = table.get(number)
    alive = weakref.ref(used)
    table.drop([number])
    assert os.fstat(used.fileno())
    del used
    assert alive() is None


def test_an_offered_descriptor_that_is_dropped_is_closed_and_makes_room() -> None:
    table = table_of(1)
    (descriptor,) = memfds(1)
    alive = weakref.ref(descriptor)
    number = table.offer(descriptor)
    del descriptor
    table.drop([number])
    assert alive() is None
    with pytest.raises(HalError, match=f"descriptor {number} is not offered"):
        table.take(number)
    table.put(memfds(1))


def test_put_and_offered_descriptors_share_one_limit() -> None:
    table = table_of(3)
    numbers = table.put(memfds(2))
    table.offer(*memfds(1))
    message = "the call takes 1 descriptors; this process holds 3 of the 3 that it may have"
    with pytest.raises(HalError, match=message) as refusal:
        table.offer(*memfds(1))
    assert refusal.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    table.drop(numbers[:1])
    with pytest.raises(HalError, match="takes 2 descriptors; this process holds 2 of the 3"):
        table.put(memfds(2))
    assert len(table) == 2
    table.put(memfds(1))


def test_closing_forgets_everything() -> None:
    table = table_of(4)
    descriptors = memfds(2)
    alive = [weakref.ref(descriptor) for descriptor in descriptors]
    table.put(descriptors[:1])
    table.offer(descriptors[1])
    descriptors.clear()
    table.close()
    assert len(table) == 0
    assert [reference() for reference in alive] == [None, None]


def test_claimed_descriptors_are_no_longer_the_sessions() -> None:
    table = table_of(3)
    given = memfds(3)
    numbers = table.put(given)
    claimed = table.claim(numbers[1:])
    assert claimed == given[1:]
    assert len(table) == 1
    with pytest.raises(HalError):  # they are still open in the name of the client
        table.put(memfds(2))
    del claimed, given
    table.put(memfds(2))
    assert table.claim([]) == []


def test_nothing_is_kept_of_descriptors_that_are_claimed_with_an_unknown_one() -> None:
    table = table_of(8)
    numbers = table.put(memfds(2))
    alive = [weakref.ref(table.get(number)) for number in numbers]
    for claimed, unknown in (([numbers[0], 77], [77]), ([numbers[1], numbers[1]], [numbers[1]])):
        with pytest.raises(HalError, match=f"descriptors \\{unknown} were not put on this link") as refusal:
            table.claim(claimed)
        assert refusal.value.status == ErrorStatus.INVALID_ARGUMENT
        del refusal
    assert len(table) == 0
    assert [each() for each in alive] == [None, None]
