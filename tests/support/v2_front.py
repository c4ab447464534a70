"""A gRPC front over a unix socket, with fakes behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from nnhal_service.access import RequestMemoryBudget
from nnhal_service.v2.grpc import GrpcLimits, GrpcServer, InferenceServicer
from nnhal_service.v2.grpc.calls import GrpcContext
from tests.support.serving import shared_loop
from tests.support.v2 import SERVER, FakeLog, FakeMemory, FakeModel, FakeRepository, FakeTrace

_LIMITS = GrpcLimits()
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@dataclass
class Served:
    """A front, the fakes behind it, and a channel to it."""

    front: GrpcServer
    repository: FakeRepository
    model: FakeModel
    memory: FakeMemory
    trace: FakeTrace
    log: FakeLog
    channel: grpc.Channel


def _owner(context: GrpcContext) -> str:
    return "the client"


@contextmanager
def serving(
    directory: Path,
    model: FakeModel,
    limits: GrpcLimits = _LIMITS,
    memory: bool = True,
    budget: RequestMemoryBudget | None = None,
) -> Iterator[Served]:
    with ExitStack() as stack:
        repository, regions, trace, log = FakeRepository(model), FakeMemory(), FakeTrace(), FakeLog()
        servicer = InferenceServicer(SERVER, repository, trace, log, regions if memory else None, _owner, budget=budget)
        address = f"unix:{directory / 'v2.sock'}"
        front = stack.enter_context(GrpcServer(shared_loop(), [address], servicer, repository, limits))
        channel = stack.enter_context(grpc.insecure_channel(address, options=_OPTIONS))
        yield Served(front, repository, model, regions, trace, log, channel)
