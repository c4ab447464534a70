"""What cannot work across hosts, and why."""

from __future__ import annotations

import grpc

from nnhal_ray.messages import ProtocolReply

SHARED_MEMORY = (
    "a region of shared memory lies in the memory of one host, and any host may serve the next request; send tensors "
    "in requests, or, on the host itself, open a native session at the framework's directory"
)
CHANGED_ON_LOAD = (
    "hosts load models when requests come for them, from their repositories: a configuration or files that are given "
    "with a load would last until the model makes room for another"
)
_REGISTER = ("SystemSharedMemoryRegister", "CudaSharedMemoryRegister")


def refusal_of(method: str) -> ProtocolReply | None:
    """The refusal of a call that means nothing across hosts; None for all other calls."""
    return unimplemented(SHARED_MEMORY) if method in _REGISTER else None


def is_registration(path: str) -> bool:
    """Whether a path of HTTP registers a region of shared memory."""
    return path.startswith(("/v2/systemsharedmemory/", "/v2/cudasharedmemory/")) and path.endswith("/register")


def unimplemented(details: str) -> ProtocolReply:
    """The reply to a call that the server does not support."""
    return ProtocolReply(code=grpc.StatusCode.UNIMPLEMENTED, details=details)
