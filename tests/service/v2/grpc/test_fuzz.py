"""Requests that are nearly right: each is answered, or refused with one of the documented statuses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.datatypes import DATATYPES
from tests.support.random_messages import fill
from tests.support.searching import further
from tests.support.v2 import SERVICE, FakeModel, in_bytes, infer, raw_request
from tests.support.v2_front import Served, serving

WORDS = [
    *("echo", "x", "1", "a", "config", "file:1/model.onnx", "unload_dependents", "log_info", "trace_level"),
    *("priority", "timeout", "sequence_id", "triton_x", "classification", "binary_data"),
    *("shared_memory_region", "shared_memory_byte_size", "shared_memory_offset", *DATATYPES),
]
ANSWERS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.UNIMPLEMENTED,
}
FIELDS = {
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "BOOL": "bool_contents",
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


@pytest.fixture
def labelled(short_path: Path) -> Iterator[Served]:
    """A model with labels, for classification."""
    with serving(short_path, FakeModel(labels={"x": ("cat",)})) as front:
        yield front


def random_request(source: random.Random) -> wire.ModelInferRequest:
    request = wire.ModelInferRequest(model_name="echo", id=source.choice(WORDS))
    raw = source.random() < 0.5
    for name in source.choice((("x",), ("x", "y"))):
        tensor = request.inputs.add(name=name, datatype=source.choice(list(DATATYPES)), shape=[source.randint(0, 2)])
        count = tensor.shape[0]
        if raw:
            size = DATATYPES[tensor.datatype].item_size or 4
            request.raw_input_contents.append(bytes(count * size))
        elif tensor.datatype in FIELDS:
            element = b"a" if tensor.datatype == "BYTES" else 1
            getattr(tensor.contents, FIELDS[tensor.datatype]).extend([element] * count)
    for _ in range(source.choice((0, 1, 1, 2))):
        disturb(request, source)
    return request


def disturb(request: wire.ModelInferRequest, source: random.Random) -> None:
    tensor = source.choice(request.inputs)
    match source.randrange(8):
        case 0:
            tensor.shape[:] = source.choice(([], [1], [2, 1], [0], [-1], [2**62, 2**62], [0, 2**62, 2**62], [1] * 70))
        case 1:
            tensor.datatype = source.choice(WORDS)
        case 2:
            fill(tensor.contents, source, WORDS)
        case 3:
            fill(tensor.parameters[source.choice(WORDS)], source, WORDS)
        case 4:
            fill(request.parameters[source.choice(WORDS)], source, WORDS)
        case 5:
            fill(request.outputs.add(name=source.choice(("x", "y"))), source, ["x", *WORDS])
        case 6:
            output = request.outputs.add(name="x")
            output.parameters["classification"].int64_param = source.choice((1, 2, 2**63 - 1))
        case _:
            request.raw_input_contents.append(source.randbytes(source.randint(0, 9)))


def refusals(served: Served, name: str, requests: Iterator[bytes]) -> set[grpc.StatusCode]:
    method = in_bytes(served.channel, name)
    statuses = set()
    for data in requests:
        try:
            method(data, timeout=30, wait_for_ready=True)
        except grpc.RpcError as error:
            statuses.add(error.code())
            assert error.details()
    return statuses


@pytest.mark.search
@pytest.mark.slow
def test_requests_that_are_nearly_right_are_answered_or_refused(labelled: Served) -> None:
    source = random.Random(6)
    requests = (random_request(source).SerializeToString() for _ in range(further(300)))
    assert refusals(labelled, "ModelInfer", requests) <= ANSWERS
    assert len(labelled.model.requests) > further(40)
    assert infer(labelled.channel, raw_request(x=np.zeros(3, np.float32))).outputs


def test_a_stream_of_such_requests_is_answered_one_by_one(labelled: Served) -> None:
    source = random.Random(7)
    requests = [random_request(source) for _ in range(further(100))]
    method = labelled.channel.stream_stream(
        f"/{SERVICE.full_name}/ModelStreamInfer",
        wire.ModelInferRequest.SerializeToString,
        wire.ModelStreamInferResponse.FromString,
    )
    answers = list(method(iter(requests), timeout=60, wait_for_ready=True))
    assert [answer.infer_response.id for answer in answers] == [request.id for request in requests]
    assert all(answer.error_message != "the call failed; the log of the server says why" for answer in answers)
