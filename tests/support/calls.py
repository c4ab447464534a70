"""Prepared models at the level of messages, in every way to execute them."""

from __future__ import annotations

from typing import Any

from nnhal.endpoint import Endpoint
from nnhal.types import Model, Request
from nnhal.v1 import burst_pb2, request_pb2
from nnhal_conformance.device import Prepared
from nnhal_conformance.session import DeviceSession
from nnhal_conformance.small_models import small_models
from nnhal_conformance.ways import ALL_RUNS, Run, RunWay
from tests.support.waiting import SECONDS

NO_TOKEN = bytes(32)
"""Token of a preparation that is not cached."""


def session_with(endpoint: Endpoint) -> DeviceSession:
    """Open a session, whose calls may take as long as they do on a busy machine."""
    return DeviceSession(endpoint, SECONDS)


def held_by(session: DeviceSession, model: Model) -> Prepared:
    """Prepare a model."""
    return Prepared(session, small_models()[0], session.prepare(model))


def _burst_call_plain(held: Prepared, request: Request) -> Run:
    burst = held.burst()

    def run(**fields: Any) -> request_pb2.ExecutionResult:
        message = burst_pb2.BurstServiceExecuteSynchronouslyRequest(
            burst=burst.handle,
            request=held.encoded(request),
            memory_identifier_tokens=[-1] * len(request.pools),
            **{"deadline_ns": -1, **fields},
        )
        return held.session.call(held.session.burst.ExecuteSynchronously, message).result

    return run


WAYS: dict[str, RunWay] = {**ALL_RUNS, "burst-call-plain": _burst_call_plain}
"""All ways to execute, also the one that no device need offer."""
