"""The servers that are measured on a model."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.peers.starting import Addresses
from nnhal_tools.bench.serve import Target, Transport
from nnhal_tools.bench.serve.server import Server

TINY, CNN, LARGE = "tiny", "cnn", "large"
FLOOR = "ONNX Runtime in process"
NATIVE, NATIVE_COPIED = "nnhal native, in place", "nnhal native, copied"
V2_BYTES, V2_SHARED = "nnhal gRPC, bytes", "nnhal gRPC, shared memory"
HTTP_BYTES, HTTP_SHARED = "nnhal HTTP, bytes", "nnhal HTTP, shared memory"
TRITON = "Triton"
_NAMES = {Transport.GRPC: "gRPC", Transport.HTTP: "HTTP"}
MLSERVER, KSERVE = "MLServer gRPC", "KServe gRPC"


def pass_through(size: int) -> str:
    return f"pass-{size >> 10}-KiB"


def nnhal_contenders(server: Server, model: str) -> Mapping[str, Target]:
    """Return nnhal over each transport, and ONNX Runtime alone as the lower bound."""
    file = str(server.models[model])
    native, grpc, http = (server.urls[kind] for kind in (Transport.NATIVE, Transport.GRPC, Transport.HTTP))
    return {
        FLOOR: Target(Transport.IN_PROCESS, "", file),
        NATIVE: Target(Transport.NATIVE, native, model, shared_memory=True),
        NATIVE_COPIED: Target(Transport.NATIVE, native, model),
        V2_BYTES: Target(Transport.GRPC, grpc, model),
        V2_SHARED: Target(Transport.GRPC, grpc, model, shared_memory=True),
        HTTP_BYTES: Target(Transport.HTTP, http, model),
        HTTP_SHARED: Target(Transport.HTTP, http, model, shared_memory=True),
    }


def peer_contenders(peer: str, addresses: Addresses, model: str) -> Mapping[str, Target]:
    """Return a peer's contenders: Triton over each of its transports, the others over gRPC, their faster transport."""
    if peer == "pytriton":
        return {
            f"{TRITON} {_NAMES[kind]}, {'shared memory' if shared else 'bytes'}": Target(
                kind,
                addresses.grpc if kind is Transport.GRPC else addresses.http,
                model,
                shared_memory=shared,
            )
            for kind in (Transport.GRPC, Transport.HTTP)
            for shared in (False, True)
        }
    return {MLSERVER if peer == "mlserver" else KSERVE: Target(Transport.GRPC, addresses.grpc, model)}
