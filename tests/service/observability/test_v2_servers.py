"""Additions of the V2 servers to the log and to the trace of a request."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import grpc
import httpx
import numpy as np
import pytest
from structlog.contextvars import get_contextvars

from nnhal.arrays import Array
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_service.observability.request_scope import TraceParent, current_parent
from nnhal_service.serving import InferenceRequest
from tests.service.observability.conftest import taken
from tests.service.v2.http.conftest import serving as http_serving
from tests.support.v2 import SERVICE, FakeModel, echo
from tests.support.v2_front import serving as grpc_serving

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
Ask = Callable[[str, bool], None]
Front = Callable[[FakeModel, Path], AbstractContextManager[Ask]]


@contextmanager
def over_http(model: FakeModel, _: Path) -> Iterator[Ask]:
    """Send a request with an id, and with a client's span if told to. The answer does not matter."""
    with http_serving(model) as served:

        def ask(request_id: str, has_parent: bool) -> None:
            body = {"id": request_id, "inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}
            headers = {"traceparent": PARENT} if has_parent else {}
            answer = served.client.post("/v2/models/echo/infer", json=body, headers=headers)
            assert isinstance(answer, httpx.Response)

        yield ask


def _message(request_id: str) -> wire.ModelInferRequest:
    message = wire.ModelInferRequest(model_name="echo", id=request_id)
    message.inputs.add(name="x", datatype="FP32", shape=[1])
    message.raw_input_contents.append(np.float32(1).tobytes())
    return message


def _metadata(has_parent: bool) -> tuple[tuple[str, str], ...]:
    return (("traceparent", PARENT),) if has_parent else ()


def _unread(answer: bytes) -> bytes:
    return answer


@contextmanager
def over_grpc(model: FakeModel, directory: Path) -> Iterator[Ask]:
    """Do as ``over_http``."""
    with grpc_serving(directory, model) as served:
        call = served.channel.unary_unary(
            f"/{SERVICE.full_name}/ModelInfer", wire.ModelInferRequest.SerializeToString, _unread
        )

        def ask(request_id: str, has_parent: bool) -> None:
            try:
                call.with_call(_message(request_id), metadata=_metadata(has_parent))
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.INTERNAL

        yield ask


@contextmanager
def over_a_stream(model: FakeModel, directory: Path) -> Iterator[Ask]:
    """Do as ``over_http``."""
    with grpc_serving(directory, model) as served:
        call = served.channel.stream_stream(
            f"/{SERVICE.full_name}/ModelStreamInfer", wire.ModelInferRequest.SerializeToString, _unread
        )

        def ask(request_id: str, has_parent: bool) -> None:
            assert len(list(call(iter([_message(request_id)]), metadata=_metadata(has_parent)))) == 1

        yield ask


@pytest.fixture(params=[over_http, over_grpc, over_a_stream], ids=["http", "grpc", "stream"])
def front(request: pytest.FixtureRequest) -> Front:
    front: Front = request.param
    return front


def test_a_request_runs_as_part_of_its_clients_span_and_under_its_own_name(front: Front, short_path: Path) -> None:
    seen: list[tuple[TraceParent | None, dict[str, Any]]] = []

    def run(request: InferenceRequest) -> dict[str, Array]:
        seen.append((current_parent(), get_contextvars()))
        return echo(request)

    with front(FakeModel(run), short_path) as ask:
        ask("7", True)
        ask("8", False)
        ask("", False)
    parent = TraceParent(TRACE, SPAN, True)
    assert seen == [
        (parent, {"model": "echo", "request_id": "7", "trace_id": TRACE}),
        (None, {"model": "echo", "request_id": "8"}),
        (None, {"model": "echo"}),
    ]


def test_a_defect_is_logged_with_the_request_that_met_it(front: Front, short_path: Path, output: io.StringIO) -> None:
    def run(request: InferenceRequest) -> NoReturn:
        raise RuntimeError("a defect")

    with front(FakeModel(run), short_path) as ask:
        ask("7", True)
    (line,) = taken(output)
    assert (line["level"], line["model"], line["request_id"], line["trace_id"]) == ("error", "echo", "7", TRACE)
    assert "a defect" in str(line["exception"])
