"""Calls that wait, stall, leave or are too many: nobody else notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import grpc
import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.v2.backend import RepositoryParameter
from nnhal_service.v2.grpc import GrpcLimits
from nnhal_service.v2.grpc.calls import ended
from tests.support.serving import shared_loop
from tests.support.v2 import SERVICE, FakeModel, call, echo, floats, in_bytes, infer, raw_request, streamed_in_bytes
from tests.support.v2_front import Served, serving
from tests.support.waiting import wait_until

DATA = raw_request(x=floats(1)).SerializeToString()


def until(end: threading.Event) -> Iterator[bytes]:
    """No message; the stream stays open until the event."""
    end.wait(60)
    yield from ()


def stalled(channel: grpc.Channel, name: str, end: threading.Event) -> object:
    """A call whose request does not come. Hold what this returns: a call without references is cancelled."""
    return channel.stream_stream(f"/{SERVICE.full_name}/{name}", bytes, bytes)(until(end), wait_for_ready=True)


def test_calls_whose_request_does_not_come_take_nobody_s_place(short_path: Path) -> None:
    end = threading.Event()
    with serving(short_path, FakeModel(), GrpcLimits(calls=1, threads=1)) as served, ExitStack() as stack:
        stack.callback(end.set)
        held = [stalled(served.channel, name, end) for name in ("ModelInfer", "ModelStatistics") for _ in range(20)]
        assert infer(served.channel, raw_request(x=floats(1))).outputs
        assert call(served.channel, "ModelStatistics", wire.ModelStatisticsRequest())
        assert held


def test_the_limit_of_calls_holds_however_many_were_refused(short_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        begun.set()
        end.wait(60)
        return echo(request)

    with serving(short_path, FakeModel(wait), GrpcLimits(calls=1)) as served, ExitStack() as stack:
        stack.callback(end.set)
        method = in_bytes(served.channel, "ModelInfer")
        held = method.future(DATA, timeout=60, wait_for_ready=True)
        assert begun.wait(60)
        for _ in range(5):
            with pytest.raises(grpc.RpcError, match="1 calls are open") as got:
                method(DATA, timeout=60)
            assert got.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        end.set()
        assert held.result()
        for _ in range(5):
            assert method(DATA, timeout=60)


def test_who_waits_for_a_model_to_load_keeps_nobody_from_being_served(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = threading.Semaphore(0), threading.Event()

    def load(name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        loading.release()
        loaded.wait(60)

    monkeypatch.setattr(served.repository, "load", load)
    data = wire.RepositoryModelLoadRequest(model_name="echo").SerializeToString()
    method = in_bytes(served.channel, "RepositoryModelLoad")
    threads = GrpcLimits().threads
    held = [method.future(data, timeout=60, wait_for_ready=True) for _ in range(2 * threads)]
    try:
        assert all(loading.acquire(timeout=60) for _ in range(threads))
        for name, request in (
            ("ServerLive", wire.ServerLiveRequest()),
            ("ServerReady", wire.ServerReadyRequest()),
            ("ModelReady", wire.ModelReadyRequest(name="echo")),
            ("ServerMetadata", wire.ServerMetadataRequest()),
        ):
            assert call(served.channel, name, request)
        assert infer(served.channel, raw_request(x=floats(1))).outputs
    finally:
        loaded.set()
    assert [future.result() for future in held] == [b""] * len(held)


@pytest.mark.parametrize("is_stream", [False, True], ids=["alone", "stream"])
def test_a_client_that_leaves_cancels_its_request_and_leaves_nothing(short_path: Path, is_stream: bool) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    budget = RequestMemoryBudget(100_000)

    def wait(request: InferenceRequest) -> dict[str, Array]:
        if begun.is_set():
            return echo(request)
        request.cancellation.on_cancel(cancelled.set)
        begun.set()
        cancelled.wait(60)
        raise ServingError(ErrorKind.CANCELLED, "cancelled")

    limits = GrpcLimits(calls=1, streams=1)
    with serving(short_path, FakeModel(wait), limits, budget=budget) as served:
        leaving = grpc.insecure_channel(served.front.addresses[0])
        if is_stream:
            held: object = streamed_in_bytes(leaving)(iter([DATA]), wait_for_ready=True)
        else:
            held = in_bytes(leaving, "ModelInfer").future(DATA, wait_for_ready=True)
        assert begun.wait(60)
        leaving.close()
        assert cancelled.wait(60)
        assert held
        wait_until(lambda: budget.held == 0, "its bytes are given back")
        # Its place in the limits is free again, once the server has ended its call.
        wait_until(lambda: is_served(served, is_stream), "there is room for the next")


def is_served(served: Served, is_stream: bool) -> bool:
    try:
        if is_stream:
            return len(list(streamed_in_bytes(served.channel)(iter([DATA]), timeout=60, wait_for_ready=True))) == 1
        return bool(in_bytes(served.channel, "ModelInfer")(DATA, timeout=60, wait_for_ready=True))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        return False


def test_much_of_anything_is_served(served: Served) -> None:
    strings = np.array([b"%d" % number for number in range(50_000)], object)
    assert (
        infer(served.channel, raw_request(x=strings)).raw_output_contents[0]
        == raw_request(x=strings).raw_input_contents[0]
    )
    request = wire.ModelInferRequest(model_name="echo")
    request.inputs.add(name="x", datatype="FP32", shape=[50_000]).contents.fp32_contents.extend(range(50_000))
    assert infer(served.channel, request).raw_output_contents[0] == np.arange(50_000, dtype=np.float32).tobytes()
    del request.inputs[0].contents.fp32_contents[0]
    with pytest.raises(grpc.RpcError, match="has 49999 elements, expected 50000"):
        infer(served.channel, request)
    with pytest.raises(grpc.RpcError, match="raw_input_contents has 100000 entries, expected 0"):
        infer(served.channel, wire.ModelInferRequest(model_name="echo", raw_input_contents=[b""] * 100_000))


def test_work_in_a_thread_ends_before_its_task_does() -> None:
    loop, begun, end, seen = shared_loop(), threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        end.wait(60)
        seen.append("work")

    async def task() -> None:
        try:
            await ended(loop.compute(work))
        finally:
            seen.append("task")

    future = asyncio.run_coroutine_threadsafe(task(), loop.asyncio)
    assert begun.wait(60)
    future.cancel()
    loop.run(asyncio.sleep(0))  # the task has been told
    assert seen == []
    end.set()
    wait_until(lambda: len(seen) == 2, "both end")
    assert seen == ["work", "task"]
