"""Roles, and what each call of the protocols needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum


class Role(IntEnum):
    """What a client may do; a higher one may do all that a lower one may."""

    NOBODY = 0
    """Asks whether the server lives."""
    INFER = 1
    """Runs models, and sees what concerns that."""
    ADMIN = 2
    """Changes what is served, traced and logged."""


_SERVICE = "/inference.GRPCInferenceService/"
_CALLS: Mapping[str, Role] = {
    f"{_SERVICE}ServerLive": Role.NOBODY,
    f"{_SERVICE}ServerReady": Role.NOBODY,
    f"{_SERVICE}RepositoryModelLoad": Role.ADMIN,
    f"{_SERVICE}RepositoryModelUnload": Role.ADMIN,
    f"{_SERVICE}TraceSetting": Role.ADMIN,
    f"{_SERVICE}LogSettings": Role.ADMIN,
}
_OPEN_SERVICES = ("/grpc.health.v1.Health/",)
_PATHS = (
    (re.compile(r"/v2/health/(live|ready)"), Role.NOBODY),
    (re.compile(r"/v2/repository/models/.*"), Role.ADMIN),
    (re.compile(r"/v2/logging"), Role.ADMIN),
    (re.compile(r"/v2(/models/[^/]+)?/trace/setting"), Role.ADMIN),
    (re.compile(r"/v2(/.*)?"), Role.INFER),
    (re.compile(r"/metrics"), Role.INFER),
    (re.compile(r"/(docs|redoc|openapi\.json)(/.*)?"), Role.INFER),
)


def role_for_call(method: str) -> Role:
    """What a gRPC method, such as ``/inference.GRPCInferenceService/ModelInfer``, needs."""
    if method.startswith(_OPEN_SERVICES):
        return Role.NOBODY
    return _CALLS.get(method, Role.INFER)


def role_for_path(path: str) -> Role:
    """What an HTTP path needs; ADMIN where it is none of the protocol's."""
    return next((role for pattern, role in _PATHS if pattern.fullmatch(path)), Role.ADMIN)
