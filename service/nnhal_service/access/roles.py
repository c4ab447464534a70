"""The role that each call of the protocols needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from nnhal_hosting.access import AccessRole

_SERVICE = "/inference.GRPCInferenceService/"
_CALLS: Mapping[str, AccessRole] = {
    f"{_SERVICE}{name}": role
    for role, names in {
        AccessRole.NOBODY: ("ServerLive", "ServerReady"),
        AccessRole.VIEW: (
            *("ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics", "RepositoryIndex"),
            *("SystemSharedMemoryStatus", "CudaSharedMemoryStatus"),
        ),
        AccessRole.INFER: (
            *("ModelInfer", "ModelStreamInfer", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister"),
            *("CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"),
        ),
        AccessRole.ADMIN: ("RepositoryModelLoad", "RepositoryModelUnload", "TraceSetting", "LogSettings"),
    }.items()
    for name in names
}
"""All other calls need ADMIN. The two of settings need VIEW only if they change none."""
_OPEN_SERVICES = ("/grpc.health.v1.Health/",)
_REFLECTION = "/grpc.reflection."
_READING = ("GET", "HEAD")
_KEPT = 128
"""The paths whose roles are kept. A path may have tens of kilobytes."""
_PATHS = (
    (re.compile(r"/v2/health/(live|ready)"), AccessRole.NOBODY, AccessRole.NOBODY),
    (re.compile(r"/v2/repository/models/.*"), AccessRole.ADMIN, AccessRole.ADMIN),
    (re.compile(r"/v2/repository/index"), AccessRole.VIEW, AccessRole.VIEW),
    (re.compile(r"/v2/logging"), AccessRole.VIEW, AccessRole.ADMIN),
    (re.compile(r"/v2(/models/[^/]+)?/trace/setting"), AccessRole.VIEW, AccessRole.ADMIN),
    (re.compile(r"/v2/(models|systemsharedmemory|cudasharedmemory)/.*"), AccessRole.VIEW, AccessRole.INFER),
    (re.compile(r"/v2(/.*)?"), AccessRole.VIEW, AccessRole.ADMIN),
    (re.compile(r"/"), AccessRole.VIEW, AccessRole.VIEW),
    (re.compile(r"/metrics"), AccessRole.VIEW, AccessRole.VIEW),
    (re.compile(r"/(docs|redoc|openapi\.json)(/.*)?"), AccessRole.VIEW, AccessRole.VIEW),
)
"""Paths, the role that reads them, and the role for all other methods."""


def role_for_call(method: str) -> AccessRole:
    """Return the role that a gRPC method, such as ``/inference.GRPCInferenceService/ModelInfer``, needs."""
    if method.startswith(_OPEN_SERVICES):
        return AccessRole.NOBODY
    if method.startswith(_REFLECTION):
        return AccessRole.VIEW
    return _CALLS.get(method, AccessRole.ADMIN)


@lru_cache(_KEPT)
def role_for_request(method: str, path: str) -> AccessRole:
    """Return the role that a request over HTTP needs; ADMIN if its path is none of the protocol's."""
    for pattern, reading, changing in _PATHS:
        if pattern.fullmatch(path):
            return reading if method in _READING else changing
    return AccessRole.ADMIN
