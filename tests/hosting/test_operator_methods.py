"""Methods for operators: whom other callers keep waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from nnhal.admin import ADMIN_KEY_METADATA
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import admin_pb2_grpc
from nnhal_hosting.operator_methods import OperatorMethods

KEY = "k" * 32
CALLS = 50


class Slow:
    """Answers a call that has the right key at once, and every other one once it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    def __getattr__(self, _: str) -> Callable[[object, grpc.ServicerContext], wire.GetProcessResponse]:
        return self.answer

    def answer(self, _: object, context: grpc.ServicerContext) -> wire.GetProcessResponse:
        is_operator = (ADMIN_KEY_METADATA, KEY) in context.invocation_metadata()
        if not is_operator:
            self.may_answer.wait()
        return wire.GetProcessResponse(is_whole=is_operator)


class Served(NamedTuple):
    """A server, and what it serves."""

    servicer: Slow
    channel: grpc.Channel
    stub: admin_pb2_grpc.AdminServiceStub


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    methods, servicer = OperatorMethods([KEY]), Slow()
    served: Any = servicer
    methods.add(admin_pb2_grpc.add_AdminServiceServicer_to_server, served)
    server = grpc.server(ThreadPoolExecutor(1), handlers=[methods])
    address = f"unix:{tmp_path}/s"
    server.add_insecure_port(address)
    server.start()
    with grpc.insecure_channel(address) as channel:
        yield Served(servicer, channel, admin_pb2_grpc.AdminServiceStub(channel))
        servicer.may_answer.set()
        server.stop(None).wait()
    methods.close()


@pytest.mark.parametrize("metadata", [(), ((ADMIN_KEY_METADATA, "another"),)])
def test_an_operator_is_answered_while_calls_of_others_wait(
    served: Served, metadata: tuple[tuple[str, str], ...]
) -> None:
    waiting = [served.stub.GetProcess.future(wire.GetProcessRequest(), metadata=metadata) for _ in range(CALLS)]
    answer = served.stub.GetProcess(wire.GetProcessRequest(), metadata=((ADMIN_KEY_METADATA, KEY),), timeout=60)
    assert answer.is_whole
    assert not any(call.done() for call in waiting)
    served.servicer.may_answer.set()
    assert not any(call.result(timeout=60).is_whole for call in waiting)


def test_a_method_that_is_not_served_is_unimplemented(served: Served) -> None:
    device = admin_pb2_grpc.DeviceAdminServiceStub(served.channel)
    with pytest.raises(grpc.RpcError) as caught:
        device.GetDevice(wire.GetDeviceRequest(), timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
