"""The routes of clients' shared memory: system regions. CUDA regions are not supported."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, Field

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.backend import SharedRegion
from nnhal_service.v2.http.json_route import json_route
from nnhal_service.v2.http.middleware import peer_of
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.requested import enabled, refuse

_MAX = 2**63 - 1


class RegisterRequest(BaseModel):
    """A part of the file ``key`` in /dev/shm."""

    key: str
    offset: int = Field(default=0, ge=0, le=_MAX)
    byte_size: int = Field(ge=0, le=_MAX)


def router_for(services: Services) -> APIRouter:
    """``/v2/systemsharedmemory`` and ``/v2/cudasharedmemory``."""
    router = APIRouter(tags=["shared memory"], route_class=json_route(services))

    @router.get("/v2/systemsharedmemory/status")
    @router.get("/v2/systemsharedmemory/region/{region}/status")
    def status(request: Request, region: str = "") -> list[dict[str, Any]]:
        """The caller's own regions."""
        found = enabled(services.memory).status(region, peer_of(request.scope))
        return [{"name": r.name, "key": r.key, "offset": r.offset, "byte_size": r.byte_size} for r in found]

    @router.post("/v2/systemsharedmemory/region/{region}/register")
    def register(request: Request, region: str, body: Annotated[RegisterRequest, Body()]) -> dict[str, str]:
        """Make a part of a file a region of the caller."""
        wanted = SharedRegion(region, body.key, body.offset, body.byte_size)
        enabled(services.memory).register(wanted, peer_of(request.scope))
        return {}

    @router.post("/v2/systemsharedmemory/unregister")
    @router.post("/v2/systemsharedmemory/region/{region}/unregister")
    def unregister(request: Request, region: str = "") -> dict[str, str]:
        """Forget one region of the caller, or all."""
        if services.memory is not None:
            services.memory.unregister(region, peer_of(request.scope))
        return {}

    @router.get("/v2/cudasharedmemory/status")
    @router.get("/v2/cudasharedmemory/region/{region}/status")
    def cuda_status(region: str = "") -> list[dict[str, Any]]:
        """Always an empty list: no device here has such memory."""
        if region:
            raise ServingError(ErrorKind.NOT_FOUND, f"Unable to find cuda shared memory region: '{region}'")
        return []

    @router.post("/v2/cudasharedmemory/region/{region}/register")
    def cuda_register(region: str) -> dict[str, str]:
        """Always an error: no device here has such memory."""
        raise refuse(f"failed to register CUDA shared memory region: '{region}', GPUs not supported")

    @router.post("/v2/cudasharedmemory/unregister")
    @router.post("/v2/cudasharedmemory/region/{region}/unregister")
    def cuda_unregister(region: str = "") -> dict[str, str]:  # noqa: ARG001
        """No error: no region is left."""
        return {}

    return router
