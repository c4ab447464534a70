"""Requests with a field at an extreme: the device answers, in words if it refuses, lives, and takes little memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from nnhal.endpoint import Endpoint
from nnhal.v1 import device_pb2
from tests.support.extremes import Extreme, extremes
from tests.support.memory_limit import memory_limit, peak_bytes
from tests.support.plain_words import require_plain
from tests.support.processes import device_process
from tests.support.well_formed import Failure, WellFormed, device_methods, name_of

pytestmark = pytest.mark.slow

SPARE = 4 << 30
"""Of addresses: threads and their arenas take most of it."""
GROWTH = 256 << 20
MANY = 3_000
FOR_OPERATORS = {"EndSession", "Drain", "Exit", "SetLogLevel", "GetLogLines", "GetFigures"}
"""Refused for want of a key, whatever the request says."""
METHODS = {name_of(method): method for method in device_methods() if method.name not in FOR_OPERATORS}


@pytest.fixture(scope="module", params=["cpu_ref", "cpu_acc"])
def abused(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A device that may not have much memory, and is alive at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        device_process(request.param, Path(directory)) as (child, endpoint),
        memory_limit(SPARE, child.pid),
    ):
        before = peak_bytes(child.pid)
        yield endpoint
        with WellFormed(endpoint) as session:
            assert session.answer(METHODS["DeviceService.GetType"], device_pb2.GetTypeRequest()) is None
        assert peak_bytes(child.pid) - before < GROWTH
        assert "Traceback" not in child.said()


@cache
def all_extremes(method: MethodDescriptor) -> list[Extreme]:
    return list(extremes(method.input_type, MANY))


def require_words(failure: Failure | None, cause: object) -> None:
    """Check how a call failed, if it did."""
    if failure is not None:
        assert failure.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), (failure, cause)
        require_plain(failure.message, cause)


@pytest.mark.parametrize("name", METHODS)
def test_a_field_at_an_extreme_is_answered_in_words(abused: Endpoint, name: str) -> None:
    with WellFormed(abused) as session:
        for extreme in all_extremes(METHODS[name]):
            request = extreme.applied(session.request_of(METHODS[name]))
            require_words(session.answer(METHODS[name], request), extreme)


@settings(max_examples=150)
@given(data=st.data())
def test_several_fields_at_extremes_are_answered_in_words(abused: Endpoint, data: st.DataObject) -> None:
    method = METHODS[data.draw(st.sampled_from([name for name in METHODS if all_extremes(METHODS[name])]))]
    chosen = data.draw(st.lists(st.sampled_from(all_extremes(method)), min_size=2, max_size=4))
    with WellFormed(abused) as session:
        request = session.request_of(method)
        for extreme in chosen:
            extreme.apply(request)
        require_words(session.answer(method, request), [str(extreme) for extreme in chosen])
