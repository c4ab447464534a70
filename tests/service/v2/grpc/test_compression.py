"""Requests that their clients have compressed, with tritonclient and by gRPC itself."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from grpc import StatusCode

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.v2.grpc.compression import decompressed, is_compressed
from tests.support.tritonclients import input_of
from tests.support.v2 import FakeModel, raw_request
from tests.support.v2_front import Served, serving

MEBIBYTE = 1 << 20
LIMIT = 16 * MEBIBYTE
INFER = "/inference.GRPCInferenceService/ModelInfer"
ALGORITHMS = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}


@pytest.fixture
def budget() -> RequestMemoryBudget:
    return RequestMemoryBudget(LIMIT)


@pytest.fixture
def served(short_path: Path, budget: RequestMemoryBudget) -> Iterator[Served]:
    with serving(short_path, FakeModel(), budget=budget) as front:
        yield front


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_compressed_request_is_served(served: Served, algorithm: str) -> None:
    values = np.arange(300_000, dtype=np.float32)
    with tritonclient.grpc.InferenceServerClient(served.front.addresses[0]) as client:
        asked = [input_of(tritonclient.grpc, "x", values)]
        answer = client.infer("echo", asked, compression_algorithm=algorithm)
        np.testing.assert_array_equal(answer.as_numpy("x"), values)


def call(served: Served, method: str, message: bytes, compression: grpc.Compression) -> Any:
    unary: Any = served.channel.unary_unary(method, None, None)
    return unary(message, compression=compression, timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_a_request_that_grows_beyond_the_limit_is_refused_and_holds_nothing(
    served: Served, budget: RequestMemoryBudget, algorithm: grpc.Compression
) -> None:
    bomb = raw_request(x=np.zeros(LIMIT, np.float32)).SerializeToString()
    with pytest.raises(grpc.RpcError) as caught:
        call(served, INFER, bomb, algorithm)
    assert caught.value.code() == StatusCode.RESOURCE_EXHAUSTED
    assert "which --request-memory allows" in str(caught.value.details())
    assert budget.held == 0


def test_calls_beside_inferences_take_compressed_messages_of_half_a_mebibyte(served: Served) -> None:
    ready = "/inference.GRPCInferenceService/ModelReady"
    answer = call(served, ready, wire.ModelReadyRequest(name="echo").SerializeToString(), grpc.Compression.Gzip)
    assert wire.ModelReadyResponse.FromString(answer).ready
    with pytest.raises(grpc.RpcError) as caught:
        long = wire.ModelReadyRequest(name="n" * MEBIBYTE).SerializeToString()
        call(served, ready, long, grpc.Compression.Gzip)
    assert caught.value.code() == StatusCode.RESOURCE_EXHAUSTED
    assert "more than 524288 bytes" in str(caught.value.details())


@pytest.mark.parametrize(
    "broken",
    [gzip.compress(b"x" * 99)[:-4], zlib.compress(b"x" * 99)[:9], b"\x1f\x8b\x00"],
    ids=["gzip", "deflate", "head"],
)
def test_a_broken_message_is_refused(served: Served, broken: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(served, INFER, broken, grpc.Compression.NoCompression)
    assert caught.value.code() == StatusCode.INVALID_ARGUMENT
    assert "the compressed message is broken" in str(caught.value.details())


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("size", [0, 1, 1 << 18, (1 << 18) + 1, 3 * MEBIBYTE])
def test_each_piece_is_charged(compress: Callable[[bytes], bytes], size: int) -> None:
    charged: list[int] = []
    message = bytes(np.random.default_rng(1).integers(0, 9, size, np.uint8))
    assert is_compressed(compress(message))
    assert decompressed(compress(message), charged.append) == message
    assert sum(charged) == 2 * size
