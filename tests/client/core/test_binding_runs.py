"""Messages of a run of a binding, and its reading of answers; no process is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.link import Channel, ChannelClosedError, ProtocolError, channel_pair
from nnhal.remote import RemoteRunChannel
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal.v1 import burst_pb2, request_pb2, types_pb2
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import RunReport
from nnhal_client.core.binding_memory import BindingMemory
from nnhal_client.core.binding_runs import BindingRuns, Exchanges, OutputTooSmallError

GOOD = burst_pb2.BurstAnswer(result=request_pb2.ExecutionResult(output_sufficient_size=True)).SerializeToString()
SMALL = burst_pb2.BurstAnswer(result=request_pb2.ExecutionResult()).SerializeToString()
REFUSED = burst_pb2.BurstAnswer(
    status=types_pb2.ErrorStatus.ValueType(ErrorStatus.GENERAL_FAILURE), message="out of order"
).SerializeToString()
GARBAGE = b"\xff" * 9
HOUR_NS = 3600 * 10**9
SETTLED = {"k": (4,)}


class Outputs:
    """Outputs, and what they were told of their dimensions."""

    def __init__(self, has_unknown_dimensions: bool = False) -> None:
        self.has_unknown_dimensions = has_unknown_dimensions
        self.dimensions: Mapping[str, Dimensions] = {}

    def resize(self, dimensions: Mapping[str, Dimensions]) -> None:
        self.dimensions = dimensions

    def shortage(self, dimensions: Mapping[str, Dimensions]) -> str:
        return f": {dict(dimensions)}"


class Bound:
    """A binding with a channel to the framework, and a run channel to the device."""

    def __init__(self, outputs: Outputs | None = None, may_fall_back: bool = True, measures: bool = False) -> None:
        self.framework, _ = channel_pair()
        self.device, _ = channel_pair()
        run_channel = RemoteRunChannel(self.device, 7, may_fall_back, ("y", "", "z"), SETTLED)
        self.runs = BindingRuns(
            "here", self.framework, [run_channel], measures, cast(BindingMemory, outputs or Outputs()), ()
        )

    def sends_to_device(self, exchanges: Exchanges) -> None:
        channel, message = next(exchanges)
        assert channel is self.device
        run = burst_pb2.BurstCall.FromString(message).run
        assert (run.execution, run.deadline_ns) == (7, -1)

    def sends_to_framework(self, sent: tuple[Channel, bytes], deadline_ns: int = -1, after_loss: bool = False) -> None:
        """See that the framework is asked, and told if the run channel has been lost since it was asked last."""
        channel, message = sent
        assert channel is self.framework
        call = wire.RunCall.FromString(message)
        assert (call.deadline_ns, call.lost_run_channel) == (deadline_ns, after_loss)


def framework_answer(status: ErrorStatus = ErrorStatus.NONE, message: str = "", **outputs: Dimensions) -> bytes:
    report = wire.RunReport(
        duration_ns=5, outputs=[wire.OutputReport(name=n, dimensions=d) for n, d in outputs.items()]
    )
    return wire.RunAnswer(
        status=types_pb2.ErrorStatus.ValueType(status), message=message, report=report
    ).SerializeToString()


def shaped(*dimensions: Dimensions) -> bytes:
    """An answer of the device with dimensions of outputs."""
    shapes = [request_pb2.OutputShape(dimensions=each, is_sufficient=True) for each in dimensions]
    result = request_pb2.ExecutionResult(output_sufficient_size=True, output_shapes=shapes)
    return burst_pb2.BurstAnswer(result=result).SerializeToString()


def ended(exchanges: Exchanges, answer: bytes) -> RunReport:
    with pytest.raises(StopIteration) as end:
        exchanges.send(answer)
    report = end.value.value
    assert isinstance(report, RunReport)
    return report


def test_a_direct_run_is_one_datagram_each_way() -> None:
    bound = Bound()
    for _ in range(3):
        exchanges = bound.runs.exchanges()
        bound.sends_to_device(exchanges)
        report = ended(exchanges, GOOD)
        assert report.direct and report.duration_ns > 0
        assert report.dimensions == SETTLED


def test_what_the_device_refuses_is_asked_of_the_framework_and_the_next_run_is_direct() -> None:
    bound = Bound()
    for answer in (REFUSED, SMALL, GOOD):
        exchanges = bound.runs.exchanges()
        bound.sends_to_device(exchanges)
        if answer == GOOD:
            assert ended(exchanges, GOOD).direct
        else:
            bound.sends_to_framework(exchanges.send(answer))
            assert not ended(exchanges, framework_answer()).direct
    assert not bound.runs.lost_run_channel


def test_without_a_fallback_the_refusal_of_the_device_is_the_answer() -> None:
    bound = Bound(may_fall_back=False)
    exchanges = bound.runs.exchanges()
    bound.sends_to_device(exchanges)
    with pytest.raises(HalError, match="out of order") as caught:
        exchanges.send(REFUSED)
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE
    exchanges = bound.runs.exchanges()
    bound.sends_to_device(exchanges)
    assert ended(exchanges, GOOD).direct


def test_how_much_memory_an_output_needs_the_framework_says_even_without_a_fallback() -> None:
    bound = Bound(may_fall_back=False)
    exchanges = bound.runs.exchanges()
    bound.sends_to_device(exchanges)
    bound.sends_to_framework(exchanges.send(SMALL))
    with pytest.raises(OutputTooSmallError) as caught:
        exchanges.send(framework_answer(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, "too small", y=(2, 5000)))
    assert caught.value.dimensions == {"y": (2, 5000)}
    assert not bound.runs.lost_run_channel


def test_direct_runs_report_the_dimensions_of_outputs_and_those_that_are_known() -> None:
    outputs = Outputs(has_unknown_dimensions=True)
    bound = Bound(outputs)
    for count in (3, 3, 5):
        exchanges = bound.runs.exchanges()
        bound.sends_to_device(exchanges)
        report = ended(exchanges, shaped((1, count), (7,), ()))
        assert report.direct
        assert report.dimensions == outputs.dimensions == {"y": (1, count), "z": (), **SETTLED}


def test_outputs_are_shown_as_the_last_run_has_them_whichever_way_it_took() -> None:
    outputs = Outputs(has_unknown_dimensions=True)
    bound = Bound(outputs)
    for _ in range(2):
        exchanges = bound.runs.exchanges()
        bound.sends_to_device(exchanges)
        ended(exchanges, shaped((1, 3), (7,), ()))
        assert outputs.dimensions["y"] == (1, 3)
        exchanges = bound.runs.exchanges(HOUR_NS)
        next(exchanges)
        ended(exchanges, framework_answer(y=(1, 9)))
        assert outputs.dimensions["y"] == (1, 9)


@pytest.mark.parametrize("error", [ChannelClosedError("closed"), ProtocolError("too long"), TransportError("gone")])
def test_a_lost_run_channel_costs_no_run_and_is_not_used_again(error: NnhalError) -> None:
    bound = Bound()
    exchanges = bound.runs.exchanges()
    bound.sends_to_device(exchanges)
    bound.sends_to_framework(exchanges.throw(error), after_loss=True)
    assert not ended(exchanges, framework_answer()).direct
    assert bound.runs.lost_run_channel
    assert bound.runs.channels == [bound.framework]
    bound.sends_to_framework(next(bound.runs.exchanges()))


def test_garbage_on_the_run_channel_loses_it() -> None:
    bound = Bound()
    exchanges = bound.runs.exchanges()
    bound.sends_to_device(exchanges)
    bound.sends_to_framework(exchanges.send(GARBAGE), after_loss=True)
    assert bound.runs.lost_run_channel


def test_a_run_with_a_deadline_is_the_frameworks() -> None:
    bound = Bound()
    bound.sends_to_framework(next(bound.runs.exchanges(HOUR_NS)), HOUR_NS)
    bound.sends_to_device(bound.runs.exchanges())


def test_the_framework_says_what_was_wrong() -> None:
    bound = Bound()
    exchanges = bound.runs.exchanges(HOUR_NS)
    next(exchanges)
    with pytest.raises(HalError, match="unloaded") as caught:
        exchanges.send(framework_answer(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded"))
    assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE


def test_an_output_that_does_not_fit_says_what_it_needs() -> None:
    exchanges = Bound().runs.exchanges(HOUR_NS)
    next(exchanges)
    with pytest.raises(OutputTooSmallError, match=r"too small: {'y': \(2, 5000\)}") as caught:
        exchanges.send(framework_answer(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, "too small", y=(2, 5000)))
    assert caught.value.dimensions == {"y": (2, 5000)}


def test_a_framework_that_is_gone_is_named() -> None:
    exchanges = Bound().runs.exchanges(HOUR_NS)
    next(exchanges)
    with pytest.raises(DeadObjectError, match="the framework at here: closed"):
        exchanges.throw(ChannelClosedError("closed"))


@pytest.mark.parametrize("unknown", [True, False])
def test_outputs_of_unknown_dimensions_are_resized_by_the_report(unknown: bool) -> None:
    outputs = Outputs(unknown)
    exchanges = Bound(outputs).runs.exchanges(HOUR_NS)
    next(exchanges)
    assert ended(exchanges, framework_answer(y=(2, 3))).dimensions == {"y": (2, 3)}
    assert outputs.dimensions == ({"y": (2, 3)} if unknown else {})


@pytest.mark.parametrize("measures", [True, False])
def test_calls_are_timed_if_the_binding_measures(measures: bool) -> None:
    exchanges = Bound(measures=measures).runs.exchanges(HOUR_NS)
    next(exchanges)
    report = ended(exchanges, framework_answer())
    assert (0 < report.called_ns <= report.answered_ns) if measures else report.called_ns == report.answered_ns == -1
