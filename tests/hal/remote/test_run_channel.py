"""Answers on the client's end of a run channel."""

from __future__ import annotations

import pytest

from nnhal.errors import HalError, TransportError
from nnhal.link import channel_pair
from nnhal.remote import RemoteRunChannel
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal.v1 import burst_pb2, request_pb2, types_pb2


def channel(*outputs: str, **known: Dimensions) -> RemoteRunChannel:
    return RemoteRunChannel(channel_pair()[0], 7, True, outputs, known)


def answer(*dimensions: Dimensions, fits: bool = True) -> bytes:
    shapes = [request_pb2.OutputShape(dimensions=each, is_sufficient=fits) for each in dimensions]
    result = request_pb2.ExecutionResult(output_sufficient_size=fits, output_shapes=shapes)
    return burst_pb2.BurstAnswer(result=result).SerializeToString()


def test_dimensions_have_the_names_of_the_models_outputs() -> None:
    ours = channel("a", "", "b", k=(9,))
    assert ours.check(answer((1, 2), (3,), ())) == {"a": (1, 2), "b": (), "k": (9,)}
    assert ours.check(answer()) == {"k": (9,)}


def test_what_answers_report_counts_more_than_what_was_known_of_other_lengths() -> None:
    ours = RemoteRunChannel(channel_pair()[0], 7, True, ("a",), {"a": (2,)}, inputs=("x",))
    assert ours.check(answer((1,))) == {"a": (1,)}
    with pytest.raises(TransportError, match=r"reported dimensions \[1\] of output 'a', expected \[2\]"):
        channel("a", a=(2,)).check(answer((1,)))


def test_equal_answers_give_the_same_dimensions_which_nobody_can_change() -> None:
    ours = channel("a")
    first = ours.check(answer((2,)))
    assert ours.check(answer((2,))) is first
    assert ours.check(answer((3,))) == {"a": (3,)}
    assert first == {"a": (2,)}
    with pytest.raises(TypeError):
        first["a"] = (5,)  # type: ignore[index]


def test_refusals_are_errors_and_forget_nothing() -> None:
    ours = channel("a")
    first = ours.check(answer((2,)))
    with pytest.raises(HalError, match="does not fit") as caught:
        ours.check(answer((5,), fits=False))
    assert caught.value.status == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE
    refused = burst_pb2.BurstAnswer(
        status=types_pb2.ErrorStatus.ValueType(ErrorStatus.GENERAL_FAILURE), message="no"
    ).SerializeToString()
    with pytest.raises(HalError, match="no"):
        ours.check(refused)
    with pytest.raises(TransportError, match="9 bytes that are no BurstAnswer"):
        ours.check(b"\xff" * 9)
    assert ours.check(answer((2,))) is first


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ([(2, 4), ()], r"\[2, 4\] of output 'a', expected \[2, \?\]|\[2, 4\] of output 'a', expected"),
        ([(1, 3)], "reported 1 outputs, expected 2"),
    ],
)
def test_an_answer_that_contradicts_the_model_is_none(shapes: list[Dimensions], said: str) -> None:
    ours = RemoteRunChannel(channel_pair()[0], 7, True, ("a", "b"), declared={"a": (0, 3), "b": ()})
    assert ours.check(answer((5, 3), (9,))) == {"a": (5, 3), "b": (9,)}
    with pytest.raises(TransportError, match=said):
        ours.check(answer(*shapes))
