"""A device that speaks the wire by itself, without nnhal's hosting, and what runs on it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal_client import Binding, Framework
from tests.support.foreign_system import UNWIRED, WIRED, ForeignSystem, doubling_on, foreign_system


@pytest.fixture(scope="module")
def system(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    with foreign_system(cpu_ref) as started:
        yield started


@pytest.fixture
def framework(system: ForeignSystem) -> Iterator[Framework]:
    with system.connect() as session:
        yield session


def check(binding: Binding, value: float, factor: int) -> None:
    binding.inputs["input0"][...] = value
    binding.outputs["output0"][...] = np.nan
    report = binding.run()
    assert binding.outputs["output0"].tolist() == [factor * value] * 4
    assert not report.fell_back


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(
    "names", [WIRED[:1], WIRED, (*WIRED, UNWIRED)], ids=["over a burst", "in a wired chain", "chained by fences"]
)
def test_a_foreign_device_runs_steps(framework: Framework, names: tuple[str, ...], direct: bool) -> None:
    with doubling_on(framework, *names).bind(direct=direct) as binding:
        for number in range(5):
            check(binding, number, 2 ** len(names))
        assert binding.run().direct is (direct and UNWIRED not in names)


@pytest.mark.parametrize(
    "missing",
    [
        ("OpenRunChannel", "GetRunChannelUsage"),
        ("ConfigureExecutionBurst",),
        ("WireStep",),
        ("WireStep", "OpenLaunchChannel"),
        ("WireStep", "OpenLaunchChannel", "ConfigureExecutionBurst"),
        ("Describe", "AssessModel", "OptimizeSubgraph", "NotifyNetwork"),
    ],
    ids=lambda missing: " and ".join(missing),
)
@pytest.mark.parametrize("names", [WIRED[:1], WIRED], ids=["one step", "two steps"])
def test_steps_run_on_a_device_that_lacks_what_is_optional(
    system: ForeignSystem, framework: Framework, names: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    device = system.devices[names[-1]]
    device.lack(*missing)
    try:
        with doubling_on(framework, *names).bind() as binding:
            for number in range(3):
                check(binding, number, 2 ** len(names))
    finally:
        device.lack()
