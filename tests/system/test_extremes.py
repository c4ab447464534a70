"""Native requests to a framework with a field at an extreme: answered in words, and at the cost of little memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given
from hypothesis import strategies as st

from tests.support.extremes import Extreme, extremes
from tests.support.model_server import Devices, Served, model_server
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit, peak_bytes
from tests.support.searching import search
from tests.support.served_models import echo, write_models
from tests.support.well_formed import Failure
from tests.support.well_formed_framework import FRAMEWORK_METHODS, WellFormedFramework

pytestmark = pytest.mark.slow

SPARE = 6 << 30
"""Of addresses: threads and their arenas take most of it."""
GROWTH = 256 << 20
MANY = 1_000
PER_SESSION = 100
MODEL = echo("FP32")


@pytest.fixture(scope="module")
def abused(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A framework that may not have much memory, and serves at the end."""
    repository = write_models(tmp_path_factory.mktemp("repository"))
    with model_server(device_processes, repository) as served, memory_limit(SPARE, served.pid):
        before = peak_bytes(served.pid)
        yield served
        WellFormedFramework(served.endpoint, MODEL).close()
        assert peak_bytes(served.pid) - before < GROWTH
        assert "Traceback" not in served.child.said()


@cache
def all_extremes(method: MethodDescriptor) -> list[Extreme]:
    return list(extremes(method.input_type, MANY))


def require_words(failure: Failure | None, cause: object) -> None:
    if failure is not None:
        if "invalid hardware buffer" not in failure.message:  # GENERAL_FAILURE, as the HAL recommends
            assert failure.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), (failure, cause)
        require_plain(failure.message, cause)


@pytest.mark.parametrize("method", FRAMEWORK_METHODS.values(), ids=list(FRAMEWORK_METHODS))
def test_a_field_at_an_extreme_is_answered_in_words(abused: Served, method: MethodDescriptor) -> None:
    found = all_extremes(method)
    for start in range(0, len(found), PER_SESSION):
        with WellFormedFramework(abused.endpoint, MODEL) as session:
            for extreme in found[start : start + PER_SESSION]:
                require_words(session.answer(method, extreme.applied(session.request_of(method))), extreme)


@search(20)
@given(data=st.data())
def test_several_fields_at_extremes_are_answered_in_words(abused: Served, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from([each for each in FRAMEWORK_METHODS.values() if all_extremes(each)]))
    chosen = data.draw(st.lists(st.sampled_from(all_extremes(method)), min_size=2, max_size=4))
    with WellFormedFramework(abused.endpoint, MODEL) as session:
        request = session.request_of(method)
        for extreme in chosen:
            extreme.apply(request)
        require_words(session.answer(method, request), [str(extreme) for extreme in chosen])
