"""Roles, and the role that each call of the protocols needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum


class AccessRole(IntEnum):
    """What a client may do; a higher role includes the lower ones."""

    NOBODY = 0
    """May ask whether the server is alive."""
    INFER = 1
    """May also run models and read what is needed for that."""
    ADMIN = 2
    """May also change what is served, traced and logged."""


_SERVICE = "/inference.GRPCInferenceService/"
_CALLS: Mapping[str, AccessRole] = {
    f"{_SERVICE}ServerLive": AccessRole.NOBODY,
    f"{_SERVICE}ServerReady": AccessRole.NOBODY,
    f"{_SERVICE}RepositoryModelLoad": AccessRole.ADMIN,
    f"{_SERVICE}RepositoryModelUnload": AccessRole.ADMIN,
    f"{_SERVICE}TraceSetting": AccessRole.ADMIN,
    f"{_SERVICE}LogSettings": AccessRole.ADMIN,
}
_OPEN_SERVICES = ("/grpc.health.v1.Health/",)
_PATHS = (
    (re.compile(r"/v2/health/(live|ready)"), AccessRole.NOBODY),
    (re.compile(r"/v2/repository/models/.*"), AccessRole.ADMIN),
    (re.compile(r"/v2/logging"), AccessRole.ADMIN),
    (re.compile(r"/v2(/models/[^/]+)?/trace/setting"), AccessRole.ADMIN),
    (re.compile(r"/v2(/.*)?"), AccessRole.INFER),
    (re.compile(r"/metrics"), AccessRole.INFER),
    (re.compile(r"/(docs|redoc|openapi\.json)(/.*)?"), AccessRole.INFER),
)


def role_for_call(method: str) -> AccessRole:
    """Return the role that a gRPC method, such as ``/inference.GRPCInferenceService/ModelInfer``, needs."""
    if method.startswith(_OPEN_SERVICES):
        return AccessRole.NOBODY
    return _CALLS.get(method, AccessRole.INFER)


def role_for_path(path: str) -> AccessRole:
    """Return the role that an HTTP path needs; ADMIN if it is none of the protocol's."""
    return next((role for pattern, role in _PATHS if pattern.fullmatch(path)), AccessRole.ADMIN)
