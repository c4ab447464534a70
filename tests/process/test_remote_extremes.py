"""Requests of other hosts with a field at an extreme: the device answers, in words if it refuses, and lives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from nnhal.codec import model_to_wire
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.wire import SESSION_TOKEN_METADATA
from tests.support.additions import addition_model
from tests.support.extremes import extremes
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit, peak_bytes
from tests.support.processes import own_device
from tests.support.waiting import wait_until
from tests.support.well_formed import methods_of

pytestmark = pytest.mark.slow

SPARE = 6 << 30
"""Of addresses: threads and their arenas take most of it."""
GROWTH = 256 << 20
MANY = 1_000
ALL_METHODS = {method.name: method for method in methods_of(wire)}
METHODS = {name: method for name, method in ALL_METHODS.items() if name != "OpenSession"}
LENGTHY = {"Prepare"}
"""Whose models cost the device milliseconds: their lists get few entries."""


@dataclass
class Session:
    """A session of another host."""

    channel: grpc.Channel
    token: str

    def failure(self, method: MethodDescriptor, request: Any) -> grpc.RpcError | None:
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        path = f"/{method.containing_service.full_name}/{method.name}"
        answers = GetMessageClass(method.output_type).FromString
        call = getattr(self.channel, kind)(path, type(request).SerializeToString, answers)
        given = iter([request]) if method.client_streaming else request
        try:
            answer = call(given, metadata=((SESSION_TOKEN_METADATA, self.token),), timeout=60)
            if method.server_streaming:
                list(answer)
        except grpc.RpcError as error:
            return error
        return None


@pytest.fixture(scope="module")
def abused() -> Iterator[Session]:
    """A device that may not have much memory, and answers at the end."""
    with (
        own_device("cpu_ref", "--listen", "127.0.0.1:0") as (child, _),
        memory_limit(SPARE, child.pid),
    ):
        wait_until(lambda: "wire: " in child.said(), "the device says where it listens")  # its lines come in a thread
        address = re.search(r"wire: (\S+)", child.said())
        assert address is not None
        before = peak_bytes(child.pid)
        with grpc.insecure_channel(address.group(1)) as channel:
            opened: Any = channel.unary_stream(
                "/nnhal.v1.WireService/OpenSession",
                wire.OpenSessionRequest.SerializeToString,
                wire.OpenSessionResponse.FromString,
            )(wire.OpenSessionRequest(protocol_version=1, client_name="test"))
            session = Session(channel, next(iter(opened)).session_token)
            yield session
            assert session.failure(METHODS["Probe"], wire.ProbeRequest(payload=b"1", answer_bytes=1)) is None
        assert peak_bytes(child.pid) - before < GROWTH
        assert "Traceback" not in child.said()


def test_a_session_of_another_version_is_refused_with_both_versions(abused: Session) -> None:
    request = wire.OpenSessionRequest(protocol_version=2, client_name="test")
    failure: Any = abused.failure(ALL_METHODS["OpenSession"], request)
    assert failure.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.details() == "protocol version 2, expected 1"


@pytest.mark.parametrize("name", METHODS)
def test_a_field_at_an_extreme_is_answered_in_words(abused: Session, name: str) -> None:
    method = METHODS[name]
    request: Any = GetMessageClass(method.input_type)()
    if "model" in method.input_type.fields_by_name:
        request.model.model.CopyFrom(model_to_wire(addition_model(), lambda _: 0))
    for extreme in extremes(method.input_type, MANY // 100 if name in LENGTHY else MANY):
        failure: Any = abused.failure(method, extreme.applied(request))
        if failure is not None:
            assert failure.code() not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), (failure, extreme)
            require_plain(failure.details() or "", extreme)
