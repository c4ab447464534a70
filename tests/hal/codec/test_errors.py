from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from nnhal.codec import abort_status, error_from_rpc
from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, TransportError
from nnhal.types import ErrorStatus
from nnhal.v1 import types_pb2 as wire

DETAILS = "grpc-status-details-bin"
FAILURES = [status for status in ErrorStatus if status != ErrorStatus.NONE]
Ending = Callable[[grpc.ServicerContext], None]


class Peer:
    """A real server whose one method ends as the test says, and a client that decodes the failure."""

    def __init__(self, directory: Path) -> None:
        self._ending: Ending = lambda _: None
        handler = grpc.unary_unary_rpc_method_handler(lambda _, context: self._ending(context))
        self.server = grpc.server(ThreadPoolExecutor(1))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", {"End": handler}),))
        address = f"unix:{directory}/rpc.sock"
        self.server.add_insecure_port(address)
        self.server.start()
        self.channel = grpc.insecure_channel(address)

    def fails_with(self, ending: Ending, method: str = "End") -> NnhalError:
        """The error of a call that the server ends like that."""
        return error_from_rpc(self.failure(ending, method), "peer")

    def failure(self, ending: Ending, method: str = "End") -> Any:
        """Return what gRPC raises for a call that the server ends like that."""
        self._ending = ending
        with pytest.raises(grpc.RpcError) as failure:
            self.channel.unary_unary(f"/test.Test/{method}", bytes, bytes)(b"")
        return failure.value

    def answer(self, status: ErrorStatus, message: str) -> NnhalError:
        return self.fails_with(lambda context: context.abort_with_status(abort_status(HalError(status, message))))


@pytest.fixture
def peer(short_path: Path) -> Iterator[Peer]:
    peer = Peer(short_path)
    yield peer
    peer.channel.close()
    peer.server.stop(None).wait()


def with_details(code: grpc.StatusCode, details: bytes) -> Ending:
    """End a call with arbitrary bytes as status details."""

    def end(context: grpc.ServicerContext) -> None:
        context.set_trailing_metadata(((DETAILS, details),))
        context.abort(code, "said")

    return end


def detailed(detail: wire.ErrorDetail) -> bytes:
    packed = any_pb2.Any()
    packed.Pack(detail)
    details: bytes = status_pb2.Status(code=code_pb2.INTERNAL, message="said", details=[packed]).SerializeToString()
    return details


@pytest.mark.parametrize("status", FAILURES)
def test_a_devices_answer_comes_back_exactly(peer: Peer, status: ErrorStatus) -> None:
    error = peer.answer(status, "operand 7: got 3, expected 4")
    assert isinstance(error, HalError)
    assert (error.status, error.message) == (status, "operand 7: got 3, expected 4")


def test_every_error_has_the_grpc_code_that_clients_without_our_details_go_by() -> None:
    codes = {status: abort_status(HalError(status, "")).code for status in FAILURES}
    assert codes == {
        ErrorStatus.DEVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
        ErrorStatus.GENERAL_FAILURE: grpc.StatusCode.INTERNAL,
        ErrorStatus.OUTPUT_INSUFFICIENT_SIZE: grpc.StatusCode.OUT_OF_RANGE,
        ErrorStatus.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
        ErrorStatus.MISSED_DEADLINE_TRANSIENT: grpc.StatusCode.DEADLINE_EXCEEDED,
        ErrorStatus.MISSED_DEADLINE_PERSISTENT: grpc.StatusCode.DEADLINE_EXCEEDED,
        ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: grpc.StatusCode.RESOURCE_EXHAUSTED,
        ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    }


def test_grpcs_own_library_reads_the_details_as_a_google_rpc_status(peer: Peer) -> None:
    status = abort_status(HalError(ErrorStatus.INVALID_ARGUMENT, "operand 7: got 3, expected 4"))
    found = rpc_status.from_call(peer.failure(lambda context: context.abort_with_status(status)))
    assert (found.code, found.message) == (code_pb2.INVALID_ARGUMENT, "operand 7: got 3, expected 4")
    answer = wire.ErrorDetail()
    assert found.details[0].Unpack(answer)
    assert answer.status == wire.ERROR_STATUS_INVALID_ARGUMENT


@pytest.mark.parametrize("character", ["a", "%", "\n", "é", "漢", "😀"])
def test_a_long_message_is_cut_and_not_lost(peer: Peer, character: str) -> None:
    error = peer.answer(ErrorStatus.INVALID_ARGUMENT, character * 100_000)
    assert isinstance(error, HalError)
    assert error.message == character * (len(error.message) - 1) + "…"
    assert 300 < len(error.message) <= 2000


def test_a_message_that_fits_is_not_cut(peer: Peer) -> None:
    error = peer.answer(ErrorStatus.INVALID_ARGUMENT, "x" * 2000)
    assert isinstance(error, HalError)
    assert error.message == "x" * 2000


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code != grpc.StatusCode.OK])
def test_a_status_without_details_is_the_transports_whatever_its_code(peer: Peer, code: grpc.StatusCode) -> None:
    error = peer.fails_with(lambda context: context.abort(code, "said"))
    assert isinstance(error, TransportError)
    assert isinstance(error, DeadObjectError) == (code == grpc.StatusCode.UNAVAILABLE)
    assert str(error) == ("peer is gone: said" if code == grpc.StatusCode.UNAVAILABLE else f"peer: {code.name}: said")


@pytest.mark.contract("RS-01")
@pytest.mark.parametrize(
    "details",
    [
        b"",
        b"\xff\xff\xff",
        status_pb2.Status(code=code_pb2.INTERNAL, message="said").SerializeToString(),
        status_pb2.Status(code=code_pb2.ABORTED, message="other").SerializeToString(),
    ],
    ids=["empty", "garbage", "none of ours", "of another status"],
)
def test_details_that_make_no_sense_are_the_transports(peer: Peer, details: bytes) -> None:
    error = peer.fails_with(with_details(grpc.StatusCode.INTERNAL, details))
    assert isinstance(error, TransportError)
    assert str(error) == "peer: INTERNAL: said"


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("number", [0, 99])
def test_an_answer_with_a_status_that_is_no_error_of_the_hal_is_a_general_failure(peer: Peer, number: int) -> None:
    detail = wire.ErrorDetail(status=wire.ErrorStatus.ValueType(number), message="from the future")
    error = peer.fails_with(with_details(grpc.StatusCode.INTERNAL, detailed(detail)))
    assert isinstance(error, HalError)
    assert (error.status, error.message) == (ErrorStatus.GENERAL_FAILURE, "from the future")


def test_an_unknown_method_is_a_transport_error(peer: Peer) -> None:
    error = peer.fails_with(lambda _: None, method="Other")
    assert isinstance(error, TransportError)
    assert "UNIMPLEMENTED" in str(error)


@pytest.mark.parametrize(("said", "words"), [("", "it does not serve this method"), ("not here", "not here")])
def test_a_missing_method_is_named_whatever_the_server_says(peer: Peer, said: str, words: str) -> None:
    error = peer.fails_with(lambda context: context.abort(grpc.StatusCode.UNIMPLEMENTED, said))
    assert isinstance(error, MissingMethodError)
    assert str(error) == f"peer: UNIMPLEMENTED: {words}"


def test_a_defect_of_the_server_is_the_transports(peer: Peer) -> None:
    def defect(_: grpc.ServicerContext) -> None:
        raise KeyError("a defect")

    assert "UNKNOWN" in str(peer.fails_with(defect))


@pytest.mark.contract("RS-02")
def test_an_endpoint_without_a_process_is_a_dead_object(peer: Peer) -> None:
    peer.server.stop(None).wait()
    assert isinstance(peer.fails_with(lambda _: None), DeadObjectError)


def test_an_error_that_is_no_call_is_the_transports() -> None:
    error = error_from_rpc(grpc.RpcError("what a library may raise"), "peer")
    assert isinstance(error, TransportError)
    assert str(error) == "peer: what a library may raise"
