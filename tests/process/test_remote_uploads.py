"""Uploads that a device over TCP takes from its clients, and what it keeps of them."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from nnhal.codec import model_to_wire
from nnhal.codec.bounds import MAX_ARGUMENTS
from nnhal.contexts import Closing
from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.types import DataLocation, ErrorStatus, OperandLifeTime
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.wire import CHUNK_BYTES
from tests.support.additions import ELEMENTS, TENSOR_BYTES, addition_in_ashmem, addition_model
from tests.support.far_devices import Served, connection_to, far_device, near_device
from tests.support.waiting import wait_until

_PIECE = 1 << 16


class TcpProxy(Closing):
    """Listens at ``address``, and passes everything on to another address. ``sent`` is what clients have sent."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                self.sent += len(piece) if counts else 0
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


LIMIT = 8 << 20
CONTENT = bytes(range(256)) * 16384
DIGEST = hashlib.sha256(CONTENT).digest()


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = {
        "NNHAL_DEVICE_WIRE_SESSION_BYTES": str(LIMIT),
        "NNHAL_DEVICE_WIRE_UPLOAD_BYTES": str(LIMIT),
        "NNHAL_DEVICE_WIRE_OBJECTS": "4",
        "NNHAL_DEVICE_WIRE_SESSIONS": "3",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setenv(name, value)
        with far_device(tmp_path_factory.mktemp("far")) as served:
            yield served


@pytest.fixture
def connection(far: Served) -> Iterator[WireConnection]:
    with connection_to(far) as opened:
        yield opened


def upload(
    connection: WireConnection, content: bytes, digest: bytes, start: int = 0, end: int | None = None, length: int = 0
) -> int:
    """Send some bytes of a constant, and return how many the device has then."""

    def parts() -> Iterator[wire.PutConstantRequest]:
        yield wire.PutConstantRequest(digest=digest, length=length or len(content), offset=start)
        for offset in range(start, len(content) if end is None else end, CHUNK_BYTES):
            yield wire.PutConstantRequest(chunk=content[offset : offset + CHUNK_BYTES][: (end or 1 << 40) - offset])

    return connection.call(connection.stub.PutConstant, parts()).received_bytes


def refused(connection: WireConnection, method: Callable[..., object], request: object) -> HalError:
    with pytest.raises(HalError) as caught:
        connection.call(method, request)
    return caught.value


def test_an_upload_goes_on_where_it_ended(connection: WireConnection) -> None:
    half = len(CONTENT) // 2
    assert upload(connection, CONTENT, DIGEST, 0, half) == half
    assert upload(connection, CONTENT, DIGEST, half) == len(CONTENT)


def test_an_upload_that_does_not_go_on_where_it_ended_is_refused(connection: WireConnection) -> None:
    with pytest.raises(HalError, match="from byte 7 on, expected the first byte that is missing: 0"):
        upload(connection, CONTENT, hashlib.sha256(b"other").digest(), 7)


def test_content_that_is_not_what_its_digest_says_is_refused(connection: WireConnection) -> None:
    with pytest.raises(HalError, match="with digest") as caught:
        upload(connection, CONTENT[::-1], hashlib.sha256(b"another").digest())
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_an_upload_over_the_limit_is_refused_with_its_setting(connection: WireConnection) -> None:
    with pytest.raises(HalError, match="NNHAL_DEVICE_WIRE_UPLOAD_BYTES") as caught:
        upload(connection, b"x", DIGEST, length=LIMIT + 1)
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT


def test_uploads_that_do_not_end_count_against_the_session(connection: WireConnection) -> None:
    sent = []
    with pytest.raises(HalError, match="NNHAL_DEVICE_WIRE_SESSION_BYTES"):
        for number in range(16):
            digest = hashlib.sha256(str(number).encode()).digest()
            sent.append(upload(connection, CONTENT, digest, end=CHUNK_BYTES))
    assert len(sent) == LIMIT // CHUNK_BYTES


def test_a_message_that_is_too_large_is_refused(connection: WireConnection) -> None:
    error = refused(connection, connection.stub.Probe, wire.ProbeRequest(payload=bytes(65 << 20)))
    assert error.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT


def test_memory_over_the_limit_is_refused_and_what_is_dropped_counts_no_more(connection: WireConnection) -> None:
    stub, most = connection.stub, wire.AllocateBufferRequest(size=LIMIT)
    buffer = connection.call(stub.AllocateBuffer, most).buffer
    assert "NNHAL_DEVICE_WIRE_SESSION_BYTES" in refused(connection, stub.AllocateBuffer, most).message
    connection.call(stub.Drop, wire.WireServiceDropRequest(objects=[buffer, 12345]))
    assert connection.call(stub.AllocateBuffer, most).buffer > buffer


def test_too_many_objects_are_refused(connection: WireConnection) -> None:
    one = wire.AllocateBufferRequest(size=64)
    for _ in range(4):
        connection.call(connection.stub.AllocateBuffer, one)
    assert "NNHAL_DEVICE_WIRE_OBJECTS" in refused(connection, connection.stub.AllocateBuffer, one).message


def test_objects_of_another_session_do_not_exist(connection: WireConnection, far: Served) -> None:
    buffer = connection.call(connection.stub.AllocateBuffer, wire.AllocateBufferRequest(size=64)).buffer
    with connection_to(far) as other:
        chunks = iter([wire.StoreBufferRequest(buffer=buffer, chunk=b"x")])
        assert "does not exist in this session" in refused(other, other.stub.StoreBuffer, chunks).message


def test_a_call_without_a_session_is_refused(connection: WireConnection) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        connection.stub.Probe(wire.ProbeRequest())
    assert "token of an open session" in str(caught.value)


def test_too_many_sessions_are_refused(far: Served) -> None:
    wait_until(lambda: far.usage().sessions == 1, "no session is open")
    with (
        connection_to(far),
        connection_to(far),  # the third is for another host
        pytest.raises(OSError, match="NNHAL_DEVICE_WIRE_SESSIONS"),
        connection_to(far),
    ):
        pass
    wait_until(lambda: far.usage().sessions == 1, "the sessions have ended")
    with connection_to(far) as connection:
        assert connection.device.version


def test_a_client_that_dies_during_an_upload_leaves_nothing(far: Served) -> None:
    sent, released = threading.Event(), threading.Event()

    def parts() -> Iterator[wire.PutConstantRequest]:
        yield wire.PutConstantRequest(digest=bytes(32), length=len(CONTENT))
        yield wire.PutConstantRequest(chunk=CONTENT[:CHUNK_BYTES])
        sent.set()
        released.wait(30)

    with connection_to(far) as connection:
        stream = connection.stub.PutConstant.future(parts(), metadata=connection.metadata)
        assert sent.wait(30)
        wait_until(lambda: far.usage().sessions == 2, "the session is open")
    released.set()
    assert stream.exception() is not None
    wait_until(lambda: far.usage().sessions == 1, "the session has ended")
    with connection_to(far) as again:
        assert upload(again, CONTENT, DIGEST) == len(CONTENT)


def test_constants_are_sent_once_to_both_of_two_clients(short_path: Path) -> None:
    elements = 1 << 18
    pool = create_ashmem(4 * elements)
    model = addition_model(elements)
    operands = list(model.main.operands)
    location = DataLocation(0, 0, 4 * elements)
    operands[1] = replace(operands[1], lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
    model = replace(model, main=replace(model.main, operands=tuple(operands), input_indexes=(0,)), pools=(pool,))
    with far_device(short_path) as far, TcpProxy(far.address) as proxy:
        through = replace(far, address=proxy.address)
        sent = []
        for name in ("first", "second"):
            with near_device(short_path, through, name=name) as near, RemoteDevice(near.endpoint) as device:
                before = proxy.sent
                device.assess_model(model)
                device.prepare_model(model)
                device.prepare_model(model)
                sent.append(proxy.sent - before)
    first, second = sent
    assert 4 * elements < first < 5 * elements
    assert second < elements // 8


def test_two_clients_use_one_device_at_a_time(short_path: Path) -> None:
    with (
        far_device(short_path) as far,
        near_device(short_path, far, name="one") as one,
        near_device(short_path, far, name="two") as two,
        RemoteDevice(one.endpoint) as first,
        RemoteDevice(two.endpoint) as second,
    ):
        additions = addition_in_ashmem(), addition_in_ashmem()
        bursts = [device.prepare_model(addition_model()).configure_execution_burst() for device in (first, second)]
        for number in range(20):
            for addition, burst in zip(additions, bursts, strict=True):
                addition.check(lambda a=addition, b=burst: b.execute(a.request), number, 1)  # type: ignore[misc]
        assert far.usage().prepared_models == 2


def test_what_is_left_without_a_limit_of_time_has_none(connection: WireConnection) -> None:
    packed = wire.PackedModel(model=model_to_wire(addition_model(), lambda _: 0))
    prepared = connection.call(connection.stub.Prepare, wire.PrepareRequest(model=packed))
    argument = wire.BoundArgument(dimensions=[ELEMENTS], length=TENSOR_BYTES)
    bind = wire.BindExecutionRequest(
        prepared_model=prepared.prepared_model, inputs=[argument, argument], outputs=[argument]
    )
    execution = connection.call(connection.stub.BindExecution, bind).execution
    run = wire.WireServiceRunRequest(start=wire.RunStart(execution=execution, run=1), inputs=bytes(2 * TENSOR_BYTES))
    assert connection.call(connection.stub.Run, run).outputs == bytes(TENSOR_BYTES)
    late = wire.RunStart(execution=execution, run=2, remaining_ns=0)
    error = refused(connection, connection.stub.Run, wire.WireServiceRunRequest(start=late, inputs=run.inputs))
    assert error.status == ErrorStatus.MISSED_DEADLINE_PERSISTENT


def test_a_list_of_arguments_that_is_too_long_is_refused(connection: WireConnection) -> None:
    packed = wire.PackedModel(model=model_to_wire(addition_model(), lambda _: 0))
    prepared = connection.call(connection.stub.Prepare, wire.PrepareRequest(model=packed))
    bind = wire.BindExecutionRequest(
        prepared_model=prepared.prepared_model, inputs=[wire.BoundArgument(has_no_value=True)] * (MAX_ARGUMENTS + 1)
    )
    error = refused(connection, connection.stub.BindExecution, bind)
    assert error.status == ErrorStatus.INVALID_ARGUMENT
    assert f"{MAX_ARGUMENTS + 1} inputs, expected at most {MAX_ARGUMENTS}" in error.message
