"""Direct runs of several steps: a client runs a model over three devices itself, also when they are killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal_client import Binding, Framework, connect
from nnhal_client import Model as LoadedModel
from nnhal_client.core.load_options import FallbackName
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.models import Recipe
from tests.support.resources import resources_of
from tests.support.testbeds import own_testbed
from tests.support.waiting import settled, stop, wait_for_death, wait_until

DEVICES = ("first", "middle", "last")
F32 = OperandType.TENSOR_FLOAT32
FEWEST_RUNS = 20
SPARE = 8
"""How many descriptors may wait for the next message to be closed."""


def sums() -> Model:
    """Return 8 * x by three additions, each of which doubles."""
    recipe = Recipe()
    value, (none,) = recipe.input(F32, (4,)), recipe.integers(0)
    for _ in DEVICES:
        value = recipe.operation(OperationType.ADD, [value, value, none], Operand(F32, (4,)))
    return recipe.build(value).model


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Three processes of cpu_acc, which are started again when they die, cpu_ref, and a framework."""
    entries = [DeviceEntry(driver="cpu_acc", name=name) for name in DEVICES]
    topology = Topology(device=(*entries, DeviceEntry(driver="cpu_ref")))
    with own_testbed(topology) as started:
        yield started


@pytest.fixture
def framework(bed: Testbed) -> Iterator[Framework]:
    """Open a session once all devices are there."""
    with connect(bed.framework) as session:
        wait_until(lambda: all(device.available for device in session.devices()), "all devices are back")
        yield session


def loaded(framework: Framework, fallback: FallbackName = "allow") -> LoadedModel:
    pins = {f"name:operation{number}": name for number, name in enumerate(DEVICES)}
    model = framework.load_model(sums(), pins=pins, fallback=fallback)
    assert tuple(model.steps) == DEVICES
    return model


def bound(framework: Framework, fallback: FallbackName = "allow", measure_timing: bool = False) -> Binding:
    return loaded(framework, fallback).bind(measure_timing=measure_timing)


def kill(bed: Testbed, victim: str) -> int:
    pid = bed.pid(victim)
    os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)
    return pid


def run(binding: Binding, value: float) -> bool:
    """Run with an input, check the output, and return whether the run was direct."""
    binding.inputs["input0"][...] = value
    binding.outputs["output0"][...] = np.nan
    report = binding.run()
    assert binding.outputs["output0"].tolist() == [8 * value] * 4
    return report.direct


def test_a_plan_of_several_steps_is_run_directly_by_default(framework: Framework) -> None:
    binding = bound(framework)
    assert all(run(binding, number) for number in range(20))
    assert not bound(framework, measure_timing=True).run().direct


def test_runs_with_and_without_a_deadline_take_turns(framework: Framework) -> None:
    binding = bound(framework)
    for number in range(10):
        assert run(binding, number)
        assert not binding.run(deadline_ns=1 << 60).direct
        assert binding.outputs["output0"].tolist() == [8 * number] * 4
    assert not binding.lost_run_channel


@pytest.mark.contract("FB-03", "FB-16", "RS-10", "RS-11")
@pytest.mark.parametrize("victim", DEVICES)
@pytest.mark.parametrize("measure_timing", [False, True], ids=["direct", "through the framework"])
def test_the_cpu_takes_over_from_a_device_that_was_killed_until_it_is_back(
    bed: Testbed, framework: Framework, victim: str, measure_timing: bool
) -> None:
    binding = bound(framework, measure_timing=measure_timing)
    for number in range(3):
        run(binding, number)
    killed = kill(bed, victim)
    for number in range(3):
        assert not run(binding, number)
    assert binding.lost_run_channel is not measure_timing
    wait_until(lambda: bed.pid(victim) != killed, "it is started again")
    wait_until(lambda: not binding.run().fell_back, "its step is prepared and wired again")
    assert not run(binding, 7)


@pytest.mark.parametrize("victim", DEVICES)
def test_without_fallback_runs_fail_until_the_device_is_back(bed: Testbed, framework: Framework, victim: str) -> None:
    binding = bound(framework, "deny")
    run(binding, 1)
    killed = kill(bed, victim)
    with pytest.raises(HalError, match=victim):
        binding.run()
    wait_until(lambda: bed.pid(victim) != killed, "it is started again")

    def works() -> bool:
        try:
            return not run(binding, 3)
        except HalError:
            return False

    wait_until(works, "its step is prepared and wired again")


@pytest.mark.parametrize("measure_timing", [False, True], ids=["direct", "through the framework"])
def test_a_chain_that_is_lost_while_a_device_has_stopped_changes_no_later_result(
    bed: Testbed, framework: Framework, measure_timing: bool
) -> None:
    """The stopped device may write what the lost run was to write, when it continues."""
    binding = bound(framework, measure_timing=measure_timing)
    run(binding, 1)
    stopped = bed.pid("middle")
    stop(stopped)
    try:
        for victim in ("first", "last"):
            kill(bed, victim)
        run(binding, 2)
    finally:
        os.kill(stopped, signal.SIGCONT)
    for number in range(3, 20):
        run(binding, number)
    wait_until(lambda: not binding.run().fell_back, "the steps are wired again")
    run(binding, 20)


@pytest.mark.parametrize("victim", DEVICES)
def test_a_device_that_is_killed_during_runs_changes_no_result(bed: Testbed, framework: Framework, victim: str) -> None:
    bindings = [bound(framework), bound(framework, measure_timing=True)]
    over = threading.Event()

    def keep_running(binding: Binding) -> None:
        for number in count():
            run(binding, number)
            if over.is_set() and number >= FEWEST_RUNS:
                return

    with ThreadPoolExecutor() as threads:
        running = [threads.submit(keep_running, binding) for binding in bindings]
        killed = kill(bed, victim)
        wait_until(lambda: bed.pid(victim) != killed, "it is started again")
        over.set()
        for each in running:
            each.result(60)


def test_bindings_leave_nothing_in_any_process(bed: Testbed, framework: Framework, uncollected: None) -> None:
    model = loaded(framework)

    def use() -> None:
        for measure_timing in (False, True):
            binding = model.bind(measure_timing=measure_timing)
            run(binding, 1)
            run(binding, 2)
            binding.close()

    for _ in range(3):
        use()
    pids = [bed.pid(name) for name in (*DEVICES, "framework")]
    before = settled(lambda: [resources_of(pid) for pid in pids])
    for _ in range(5):
        use()
    wait_until(
        lambda: all(resources_of(pid).within(held, SPARE) for pid, held in zip(pids, before, strict=True)),
        "sockets are closed",
    )
