from __future__ import annotations

import pytest

from nnhal.link.numbers import CallNumbers, number_field, number_in, number_of
from nnhal.v1 import burst_pb2, execution_pb2, framework_pb2

CALL = burst_pb2.BurstCall(run=burst_pb2.BurstRun(execution=7)).SerializeToString()
NUMBERS = (0, 1, 1 << 63)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "kind",
    [
        burst_pb2.BurstCall,
        burst_pb2.BurstAnswer,
        execution_pb2.LaunchCall,
        execution_pb2.LaunchAnswer,
        framework_pb2.RunCall,
        framework_pb2.RunAnswer,
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_call_and_answer_is_numbered_by_the_same_last_bytes(kind: type[burst_pb2.BurstCall], number: int) -> None:
    assert kind(number=number).SerializeToString() == number_field(number)
    assert number_of(number_field(number)) == number_in(number_field(number)) == number


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_taken_off_a_call_and_added_to_its_answer(number: int) -> None:
    numbers, field = CallNumbers(), number_field(number)
    for _ in range(3):
        assert numbers.split(CALL + field) == (CALL, field)
        assert numbers.split(CALL) == (CALL, b"")


def test_a_number_that_is_not_last_is_found() -> None:
    field = number_field(5)
    assert CallNumbers().split(field + CALL) == (field + CALL, field)


def test_bytes_of_a_call_that_look_like_a_number_are_none() -> None:
    """The last bytes of the call belong to a message in it."""
    call = burst_pb2.BurstCall(
        release_memory_resource=burst_pb2.ReleaseMemoryResourceRequest.FromString(number_field(3))
    ).SerializeToString()
    assert call.endswith(number_field(3))
    assert CallNumbers().split(call) == (call, b"")
    both = number_field(3) + call
    assert CallNumbers().split(both) == (both, number_field(3))


@pytest.mark.parametrize("call", [b"\xff", b"\xff" * 30, b"\x0a\x7f" + b"a" * 20], ids=len)
def test_a_malformed_call_has_no_number(call: bytes) -> None:
    assert CallNumbers().split(call) == (call, b"")
