"""Launches from the client's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import FenceState, create_fence
from nnhal.remote import RemoteFencedExecution
from nnhal.types import ErrorStatus
from nnhal.v1 import execution_pb2, fenced_execution_callback_pb2, types_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.refusals import FAILURE, refusal
from tests.support.scripted import Behaviour, Call, Serve, refuse

FAILING = [status for status in ErrorStatus if status]
NO_INFO = fenced_execution_callback_pb2.GetExecutionInfoResponse()
REFUSED_WITH_SUCCESS = execution_pb2.LaunchRefused(message="why not")


def launching(answer: Callable[[bytes], bytes]) -> dict[str, Behaviour]:
    def open_channel(_: Any, call: Call) -> execution_pb2.OpenLaunchChannelResponse:
        return execution_pb2.OpenLaunchChannelResponse(channel_descriptor_id=call.channel("launch", answer))

    return {"Execution.OpenLaunchChannel": open_channel}


@pytest.mark.contract("FC-13")
@pytest.mark.parametrize("status", FAILING, ids=lambda status: status.name)
def test_a_launch_that_was_refused_is_an_error_without_a_fence(scripted: Serve, status: ErrorStatus) -> None:
    def answer(message: bytes) -> bytes:
        code = types_pb2.ErrorStatus.ValueType(status)
        refused = execution_pb2.LaunchRefused(status=code, message="not this one")
        return execution_pb2.LaunchAnswer(refused=refused).SerializeToString()

    refusing = refuse(HalError(status, "not this one"))
    device, _ = scripted(
        {
            "PreparedModel.ExecuteFencedWithConfig": refusing,
            "Execution.ExecuteFenced": refusing,
            **launching(answer),
        }
    )
    prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
    execution, launcher = prepared.create_reusable_execution(request), device.open_launcher()
    for launch in (
        lambda: prepared.execute_fenced(request),
        execution.execute_fenced,
        lambda: launcher.launch(execution),
    ):
        refusal(launch, status, "not this one")


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"\xf8\x07\x01", "answered a call of kind launch with nothing"),
        (execution_pb2.LaunchAnswer(info=NO_INFO).SerializeToString(), "answered a call of kind launch with info"),
        (execution_pb2.LaunchAnswer(refused=REFUSED_WITH_SUCCESS).SerializeToString(), "why not"),
    ],
    ids=["nothing", "something else", "a refusal without a status"],
)
def test_an_invalid_answer_to_a_launch_is_a_general_failure(scripted: Serve, answer: bytes, words: str) -> None:
    device, _ = scripted(launching(lambda _: answer))
    execution = device.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)
    refusal(lambda: device.open_launcher().launch(execution), FAILURE, words)


def launch(scripted: Serve) -> tuple[RemoteFencedExecution, Any]:
    device, other_side = scripted()
    execution = device.prepare_model(addition_model()).execute_fenced(addition_in_ashmem().request)
    return execution, other_side.signals.pop()


def test_a_launch_that_was_accepted_has_the_fence_of_the_device(scripted: Serve) -> None:
    execution, signal = launch(scripted)
    assert execution.fence is not None
    assert execution.fence.state is FenceState.PENDING
    signal.send()
    execution.fence.wait(30)


def test_a_device_that_gives_up_an_execution_fails_its_fence(scripted: Serve) -> None:
    execution, signal = launch(scripted)
    assert execution.fence is not None
    signal.fail()
    assert execution.fence.state is FenceState.ERROR


def test_a_launch_without_a_fence_has_ended(scripted: Serve) -> None:
    answer = prepared_pb2.PreparedModelServiceExecuteFencedWithConfigResponse(
        result=prepared_pb2.FencedExecutionResult(callback=1)
    )
    device, _ = scripted({"PreparedModel.ExecuteFencedWithConfig": answer})
    assert device.prepare_model(addition_model()).execute_fenced(addition_in_ashmem().request).fence is None


@pytest.mark.contract("RS-04")
def test_an_end_of_no_known_status_is_a_general_failure(scripted: Serve) -> None:
    status = types_pb2.ErrorStatus.ValueType(99)
    info = fenced_execution_callback_pb2.GetExecutionInfoResponse(error_status=status, message="what")
    device, _ = scripted({"FencedExecutionCallback.GetExecutionInfo": info})
    execution = device.prepare_model(addition_model()).execute_fenced(addition_in_ashmem().request)
    assert execution.info().status == FAILURE


def test_fences_to_wait_for_reach_the_device(scripted: Serve) -> None:
    waiting: list[Descriptor] = []

    def look(request: Any, call: Call) -> Any:
        waiting.extend(call.owner.descriptors.get(number) for number in request.wait_for_descriptor_ids)
        return prepared_pb2.PreparedModelServiceExecuteFencedWithConfigResponse(
            result=prepared_pb2.FencedExecutionResult(callback=1)
        )

    device, _ = scripted({"PreparedModel.ExecuteFencedWithConfig": look})
    fences = [create_fence()[1] for _ in range(3)]
    device.prepare_model(addition_model()).execute_fenced(addition_in_ashmem().request, fences)
    assert len(waiting) == 3
