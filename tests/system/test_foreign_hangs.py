"""Foreign devices that stop, or never end a run: binding and runs go on without them, and with them when they can."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_client import Binding, Framework
from tests.support.foreign_system import WIRED, ForeignSystem, doubling_on, foreign_system
from tests.support.waiting import stop, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def impatient(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    """A framework that soon takes a device for one that hangs."""
    with foreign_system(cpu_ref, WIRED, settings=("--hang-secs", "0.2")) as system:
        yield system


@pytest.fixture
def system(impatient: ForeignSystem) -> Iterator[ForeignSystem]:
    """The framework, and devices that answer when the test begins, and do nothing wrong after it."""
    yield impatient
    impatient.behave()
    with impatient.connect() as framework:
        wait_until(lambda: can_load(framework), "the devices are used again")


def can_load(framework: Framework) -> bool:
    try:
        doubling_on(framework, *WIRED)
    except HalError as error:
        assert "no device" in error.message or error.status == ErrorStatus.DEVICE_UNAVAILABLE, error
        return False
    return True


def runs(binding: Binding, value: float, factor: int) -> bool:
    """Run, and check the outputs. Returns False if the memory may still be written to."""
    binding.inputs["input0"][...] = value
    binding.outputs["output0"][...] = -1
    try:
        binding.run()
    except HalError as error:
        assert error.status == ErrorStatus.DEVICE_UNAVAILABLE, error
        return False
    assert binding.outputs["output0"].tolist() == [factor * value] * 4
    return True


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("names", [WIRED[:1], WIRED], ids=["one step", "a wired chain"])
def test_binding_to_a_device_that_was_stopped_falls_back(
    system: ForeignSystem, names: tuple[str, ...], direct: bool
) -> None:
    with system.connect() as framework:
        model = doubling_on(framework, *names)
        pid = system.devices[names[-1]].pid
        stop(pid)
        try:
            with model.bind(direct=direct) as binding:
                assert runs(binding, 3, 2 ** len(names))
        finally:
            os.kill(pid, signal.SIGCONT)
    assert f"{names[-1]} has not answered for 0.2 s: it was stopped" in system.framework.said()


@pytest.mark.parametrize("names", [WIRED[:1], WIRED], ids=["over a burst", "in a wired chain"])
def test_a_binding_runs_again_after_a_run_that_a_device_never_ends(
    system: ForeignSystem, names: tuple[str, ...]
) -> None:
    with system.connect() as framework:
        binding = doubling_on(framework, *names).bind(direct=False)
        assert runs(binding, 1, 2 ** len(names))
        system.devices[names[-1]].fail("never answers")
        with pytest.raises(HalError) as caught:
            binding.run(now_ns() + 500_000_000)
        assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
        system.devices[names[-1]].behave()

        def runs_again() -> bool:
            try:
                return runs(binding, 2, 2 ** len(names))
            except AssertionError as error:
                assert "running already" in str(error)
                return False

        wait_until(runs_again, "the binding runs again")
        with doubling_on(framework, *names).bind() as other:
            assert runs(other, 5, 2 ** len(names))


@pytest.mark.parametrize("names", [WIRED[:1], WIRED], ids=["over a burst", "in a wired chain"])
@pytest.mark.parametrize("numbers", [True, False], ids=["on channels", "by calls"])
def test_a_run_without_a_deadline_that_a_device_never_ends_is_computed_elsewhere(
    system: ForeignSystem, cpu_ref: Endpoint, names: tuple[str, ...], numbers: bool
) -> None:
    with ExitStack() as stack:
        if not numbers:
            settings = ("--hang-secs", "0.2")
            system = stack.enter_context(foreign_system(cpu_ref, WIRED, numbers=False, settings=settings))
        binding = doubling_on(stack.enter_context(system.connect()), *names).bind(direct=False)
        assert runs(binding, 1, 2 ** len(names))
        system.devices[names[-1]].fail("never answers")
        assert runs(binding, 2, 2 ** len(names))
        assert "a run hangs: it is stopped" in system.framework.said()
