"""The memory that messages over gRPC take before their calls are admitted, by what the process really takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import onnx_file, write
from tests.support.resources import forget_peak, peak_bytes

MEBIBYTE = 1 << 20
REQUEST_MEMORY = 8 * MEBIBYTE
MOST_GROWTH = 576 * MEBIBYTE
"""Three quarters of what is sent, and more than the 72 MiB that are allowed: a busy machine looks late."""
INFER = "/inference.GRPCInferenceService/ModelInfer"
CONNECTIONS = 4


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("small")
    write(folder, "tanh", {"1/model.onnx": onnx_file()})
    with model_server(device_processes, folder, "--request-memory", str(REQUEST_MEMORY)) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "size", "compression"),
    [(48, 16 * MEBIBYTE, grpc.Compression.NoCompression), (12, 64 * MEBIBYTE, grpc.Compression.Gzip)],
    ids=["many messages", "bombs"],
)
def test_messages_take_little_more_than_their_limit(
    served: Served, calls: int, size: int, compression: grpc.Compression
) -> None:
    before = forget_peak(served.pid)
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    with ExitStack() as stack:
        channels: list[Any] = [
            stack.enter_context(grpc.insecure_channel(served.grpc, options=options)) for _ in range(CONNECTIONS)
        ]
        message = bytes(size)
        sent = [
            channels[number % CONNECTIONS].unary_unary(INFER, None, None).future(message, compression=compression)
            for number in range(calls)
        ]
        codes = {call.exception(120).code() for call in sent}
    assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert peak_bytes(served.pid) - before < MOST_GROWTH
