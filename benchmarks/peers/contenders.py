"""The contenders that are measured on a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.peers.starting import Addresses
from benchmarks.serve import Target, Transport
from benchmarks.serve.server import BenchServer

TINY, CNN, LARGE = "tiny", "cnn", "large"
FLOOR = "ONNX Runtime in process"
PING_PONG = "socket ping-pong, then in process"
ECHO = "grpcio echo"
NATIVE, NATIVE_COPIED = "nnhal native, in place", "nnhal native, copied"
V2_BYTES, V2_SHARED = "nnhal gRPC, bytes", "nnhal gRPC, shared memory"
HTTP_BYTES, HTTP_SHARED = "nnhal HTTP, bytes", "nnhal HTTP, shared memory"
TRITON = "Triton"
TRITON_GRPC, TRITON_HTTP = f"{TRITON} gRPC, bytes", f"{TRITON} HTTP, bytes"
_NAMES = {Transport.GRPC: "gRPC", Transport.HTTP: "HTTP"}
MLSERVER, KSERVE = "MLServer gRPC", "KServe gRPC"


@dataclass(frozen=True, slots=True)
class Contender:
    """What is measured, and the processes that serve it: with those that they have started, all are its servers."""

    target: Target
    servers: tuple[int, ...] = ()


def pass_through(size: int) -> str:
    """The name of the model that passes ``size`` bytes through."""
    return f"pass-{size >> 10}-KiB"


def nnhal_contenders(server: BenchServer, model: str) -> Mapping[str, Contender]:
    """nnhal over each transport, and the floors."""
    file = str(server.models[model])
    native, grpc, http = (server.urls[kind] for kind in (Transport.NATIVE, Transport.GRPC, Transport.HTTP))
    served = {
        NATIVE: Target(Transport.NATIVE, native, model, shared_memory=True),
        NATIVE_COPIED: Target(Transport.NATIVE, native, model),
        V2_BYTES: Target(Transport.GRPC, grpc, model),
        V2_SHARED: Target(Transport.GRPC, grpc, model, shared_memory=True),
        HTTP_BYTES: Target(Transport.HTTP, http, model),
        HTTP_SHARED: Target(Transport.HTTP, http, model, shared_memory=True),
    }
    processes = tuple(server.processes.values())
    return {
        FLOOR: Contender(Target(Transport.IN_PROCESS, "", file)),
        PING_PONG: Contender(Target(Transport.PING_PONG, "", file)),
        **{name: Contender(target, processes) for name, target in served.items()},
    }


def peer_contenders(peer: str, addresses: Addresses, model: str) -> Mapping[str, Contender]:
    """A peer: Triton over each of its transports, the others over gRPC, which is their faster one."""
    if peer == "pytriton":
        targets = {
            f"{TRITON} {_NAMES[kind]}, {'shared memory' if shared else 'bytes'}": Target(
                kind,
                addresses.grpc if kind is Transport.GRPC else addresses.http,
                model,
                shared_memory=shared,
            )
            for kind in (Transport.GRPC, Transport.HTTP)
            for shared in (False, True)
        }
    else:
        name = {"mlserver": MLSERVER, "kserve": KSERVE, "echo": ECHO}[peer]
        targets = {name: Target(Transport.GRPC, addresses.grpc, model)}
    return {name: Contender(target, (addresses.pid,)) for name, target in targets.items()}
