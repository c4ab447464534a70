from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.codec import (
    config_from_wire,
    config_to_wire,
    info_from_wire,
    info_to_wire,
    request_from_wire,
    request_to_wire,
    result_from_wire,
    result_to_wire,
)
from nnhal.errors import HalError
from nnhal.types import (
    NO_SPAN,
    UNAVAILABLE_TIMING,
    Copy,
    ErrorStatus,
    ExecutionConfig,
    ExecutionResult,
    FencedExecutionInfo,
    OutputShape,
    Request,
    RequestArgument,
    Span,
    Timing,
)
from nnhal.v1 import fenced_execution_callback_pb2 as callback
from nnhal.v1 import request_pb2 as wire
from tests.hal.values import DIMENSIONS, EXTENSION_NAMES, HINTS, INT64, LOCATIONS, MEMORIES, Numbers

ARGUMENTS = st.lists(st.builds(RequestArgument, LOCATIONS, DIMENSIONS, st.booleans()), max_size=3).map(tuple)
REQUESTS = st.builds(
    Request,
    ARGUMENTS,
    ARGUMENTS,
    st.lists(st.one_of(MEMORIES, st.integers(-(2**31), 2**31 - 1)), max_size=3).map(tuple),
)
CONFIGS = st.builds(ExecutionConfig, st.booleans(), INT64, HINTS, EXTENSION_NAMES)
RESULTS = st.builds(
    ExecutionResult,
    st.booleans(),
    st.lists(st.builds(OutputShape, DIMENSIONS, st.booleans()), max_size=3).map(tuple),
    st.builds(Timing, INT64, INT64),
)

INSTANTS = st.integers(1, 2**63 - 1)
TIMINGS = st.builds(Timing, INT64, INT64)
INFOS = st.builds(
    FencedExecutionInfo,
    st.sampled_from(ErrorStatus),
    TIMINGS,
    TIMINGS,
    st.text(),
    INT64,
    INT64,
    st.one_of(st.just(NO_SPAN), st.builds(Span, INSTANTS, INSTANTS)),
    st.lists(st.builds(Copy, st.booleans(), INT64, INT64, INT64), max_size=2).map(tuple),
)


@given(REQUESTS)
def test_requests_come_back_whatever_is_in_them(request_: Request) -> None:
    numbers = Numbers()
    message = wire.Request.FromString(request_to_wire(request_, numbers.issue).SerializeToString())
    assert request_from_wire(message, numbers.resolve) == request_


@given(CONFIGS)
def test_configs_come_back(config: ExecutionConfig) -> None:
    assert config_from_wire(wire.ExecutionConfig.FromString(config_to_wire(config).SerializeToString())) == config


@given(RESULTS)
def test_results_come_back(result: ExecutionResult) -> None:
    assert result_from_wire(wire.ExecutionResult.FromString(result_to_wire(result).SerializeToString())) == result


@given(INFOS)
def test_how_a_fenced_execution_ended_comes_back(info: FencedExecutionInfo) -> None:
    message = callback.GetExecutionInfoResponse.FromString(info_to_wire(info).SerializeToString())
    assert info_from_wire(message) == info
    assert message.HasField("span") == (info.span != NO_SPAN)


def test_timing_that_was_not_measured_is_the_one_value_for_that() -> None:
    assert result_from_wire(result_to_wire(ExecutionResult())).timing is UNAVAILABLE_TIMING


def test_a_pool_of_no_kind_is_refused_with_its_place() -> None:
    message = wire.Request(pools=[wire.RequestMemoryPool(token=1), wire.RequestMemoryPool()])
    with pytest.raises(HalError, match="pool 1 of the request has no kind, expected pool or token") as refusal:
        request_from_wire(message, Numbers().resolve)
    assert refusal.value.status == ErrorStatus.INVALID_ARGUMENT


@pytest.mark.contract("RQ-11")
def test_the_token_0_is_a_token_and_no_missing_pool() -> None:
    request = Request((), (), (0,))
    assert request_from_wire(request_to_wire(request, Numbers().issue), Numbers().resolve) == request
