"""``python echo.py PORT``: a bare server of grpcio, the floor of a small request over gRPC.

It takes and returns the bytes of messages: the one answer to an inference was encoded at the start.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc

from nnhal.inference import grpc_service_pb2 as wire

_SHAPE = (1, 256)
_BYTES = 1 << 10
_THREADS = 4


def main() -> None:
    """Serve until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = grpc.server(ThreadPoolExecutor(_THREADS))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", _calls()),))
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    signal.sigwait({signal.SIGTERM})
    server.stop(None).wait()


def _calls() -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    metadata = wire.ModelMetadataResponse(name="tiny")
    metadata.inputs.add(name="x", datatype="FP32", shape=_SHAPE)
    metadata.outputs.add(name="y", datatype="FP32", shape=_SHAPE)
    answer = wire.ModelInferResponse(model_name="tiny", raw_output_contents=[bytes(_BYTES)])
    answer.outputs.add(name="y", datatype="FP32", shape=_SHAPE)
    ready = wire.ModelReadyResponse(ready=True)
    return {
        name: grpc.unary_unary_rpc_method_handler(_always(message.SerializeToString()))
        for name, message in (("ModelReady", ready), ("ModelMetadata", metadata), ("ModelInfer", answer))
    }


def _always(answer: bytes) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    return lambda _request, _context: answer


if __name__ == "__main__":
    main()
