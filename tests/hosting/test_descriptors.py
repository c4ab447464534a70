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


def test_an_offered_descriptor_can_be_taken_once() -> None:
    table = table_of(8)
    (descriptor,) = memfds(1)
    number = table.offer(descriptor)
    assert table.take(number) is descriptor
    with pytest.raises(HalError, match=f"descriptor {number} is not offered, or was taken already") as refusal:
        table.take(number)
    assert refusal.value.status == ErrorStatus.INVALID_ARGUMENT


def test_put_descriptors_cannot_be_taken_and_offered_ones_cannot_be_used() -> None:
    table = table_of(8)
    (put,) = table.put(memfds(1))
    offered = table.offer(*memfds(1))
    with pytest.raises(HalError, match=f"descriptor {put} is not offered"):
        table.take(put)
    with pytest.raises(HalError, match=f"descriptor {offered} was not put"):
        table.get(offered)


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


def test_what_is_offered_and_not_taken_goes_with_its_owner_and_nothing_else_does() -> None:
    table = table_of(4)
    (put,) = table.put(memfds(1))
    taken, left = (table.offer(*memfds(1), owner=7) for _ in range(2))
    other = table.offer(*memfds(1), owner=8)
    held = table.take(taken)
    table.withdraw(7)
    table.withdraw(7)
    assert len(table) == 2
    with pytest.raises(HalError, match=f"descriptor {left} is not offered, or was taken already, or its owner was"):
        table.take(left)
    assert os.fstat(held.fileno()) and os.fstat(table.take(other).fileno()) and os.fstat(table.get(put).fileno())


def test_ids_are_never_used_twice() -> None:
    table = table_of(2)
    seen: list[int] = []
    for _ in range(3):
        put = table.put(memfds(1))
        offered = table.offer(*memfds(1))
        seen += [*put, offered]
        table.drop(put)
        table.take(offered)
    assert min(seen) > 0
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("number", [0, 1, 2**64 - 1])
def test_unknown_ids_are_refused_and_dropping_them_is_ignored(number: int) -> None:
    table = table_of(8)
    table.drop([number, number])
    with pytest.raises(HalError, match=f"descriptor {number} "):
        table.get(number)
    with pytest.raises(HalError, match=f"descriptor {number} "):
        table.take(number)


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
