"""Loop timeouts on their way to a device."""

from __future__ import annotations

import pytest

from nnhal.remote import RemoteDevice
from nnhal.types import DEFAULT_LOOP_TIMEOUT_NS, MAX_LOOP_TIMEOUT_NS, ExecutionConfig, Request
from tests.support.additions import addition_model
from tests.support.scripted import ScriptedDevice, Serve

NOTHING = Request((), (), ())


def timeouts_sent(device: RemoteDevice, other_side: ScriptedDevice, timeout_ns: int) -> list[int]:
    prepared, config = device.prepare_model(addition_model()), ExecutionConfig(loop_timeout_duration_ns=timeout_ns)
    prepared.execute(NOTHING, config)
    prepared.execute_fenced(NOTHING, config=config)
    prepared.create_reusable_execution(NOTHING, config)
    prepared.configure_execution_burst().execute(NOTHING, config=config)
    methods = ("ExecuteSynchronouslyWithConfig", "ExecuteFencedWithConfig", "CreateReusableExecution")
    requests = [request for method in methods for request in other_side.requests(f"PreparedModel.{method}")]
    requests += [call.execute_with_config for call in other_side.burst_calls]
    return [request.config.loop_timeout_duration_ns for request in requests]


@pytest.mark.contract("CF-15")
@pytest.mark.parametrize("timeout_ns", [MAX_LOOP_TIMEOUT_NS + 1, 2**63 - 1, 2**63, 10**30])
def test_a_loop_timeout_above_the_maximum_is_the_maximum(scripted: Serve, timeout_ns: int) -> None:
    assert timeouts_sent(*scripted(), timeout_ns) == [MAX_LOOP_TIMEOUT_NS] * 4


@pytest.mark.contract("CF-15")
@pytest.mark.parametrize("timeout_ns", [-2, -1, 0, 1, DEFAULT_LOOP_TIMEOUT_NS, MAX_LOOP_TIMEOUT_NS])
def test_any_other_loop_timeout_is_left_to_the_device(scripted: Serve, timeout_ns: int) -> None:
    assert timeouts_sent(*scripted(), timeout_ns) == [timeout_ns] * 4


@pytest.mark.contract("CF-16")
def test_the_default_and_the_maximum_are_those_of_the_hal() -> None:
    assert (DEFAULT_LOOP_TIMEOUT_NS, MAX_LOOP_TIMEOUT_NS) == (2_000_000_000, 15_000_000_000)
