"""Devices that do wrong while a model is loaded: it is loaded without them, soon, and the log says why."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal_client import Framework
from tests.support.foreign.faults import FaultName
from tests.support.foreign_system import ELEMENTS, WIRED, ForeignSystem, doublings, foreign_system
from tests.support.waiting import wait_until

LIES: dict[FaultName, str] = {
    "puts extra": "expected as many that are new and above 0",
    "puts the same": "expected as many that are new and above 0",
    "puts zero": "expected as many that are new and above 0",
    "puts nothing": "has answered with drop, expected put",
    "answers puts twice": "",
    "prepares the same": "",
    "prepares for ever": "",
    "hangs in AssessModel": "it has made no progress for 0.5 s",
    "hangs in PrepareModelWithConfig": "",
    "hangs in CreateReusableExecution": "",
}
"""The words of the framework's log, where a device has broken the protocol of the link or answers no question."""


@pytest.fixture(scope="module")
def system(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    with foreign_system(cpu_ref, WIRED, settings=("--stall-secs", "0.5")) as started:
        yield started


@pytest.fixture
def framework(system: ForeignSystem) -> Iterator[Framework]:
    with system.connect() as session:
        wait_until(lambda: all(device.available for device in session.devices()), "the devices are there")
        yield session
    system.behave()


@pytest.mark.parametrize("fault", LIES)
def test_a_model_is_loaded_without_a_device_that_does_wrong(
    system: ForeignSystem, framework: Framework, fault: FaultName
) -> None:
    first = framework.load_model(doublings(1), devices=["first", "cpu_ref"])  # which it keeps
    system.devices["first"].fail(fault)
    model = framework.load_model(doublings(2), devices=["first", "cpu_ref"], fallback="allow")
    given = np.arange(ELEMENTS, dtype=np.float32)
    (result,) = model.run({"input0": given}).values()
    assert result.tolist() == (4 * given).tolist()
    (result,) = first.run({"input0": given}).values()
    assert result.tolist() == (2 * given).tolist()
    assert LIES[fault] in system.framework.said()


def test_a_model_that_may_run_nowhere_else_is_refused_with_what_the_device_does_wrong(
    system: ForeignSystem, framework: Framework
) -> None:
    system.devices["first"].fail("hangs in PrepareModelWithConfig")
    with pytest.raises(Exception, match=r"it has made no progress for 0\.5 s"):
        framework.load_model(doublings(1), devices=["first"], fallback="deny")


def test_a_binding_that_a_device_answers_with_no_handle_falls_back(system: ForeignSystem, framework: Framework) -> None:
    device = system.devices["first"]
    device.change("CreateReusableExecution", execution=0)
    try:
        with framework.load_model(doublings(1), devices=["first", "cpu_ref"], fallback="allow").bind() as binding:
            binding.inputs["input0"][...] = 3
            binding.run()
            assert binding.outputs["output0"].tolist() == [6] * ELEMENTS
    finally:
        device.change("CreateReusableExecution")
