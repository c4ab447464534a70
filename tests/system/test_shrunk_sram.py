"""The framework over an NPU whose SRAM shrinks: models that were prepared before it, and models that come after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.remote.faults import FaultControl
from nnhal_client import Framework, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.support.testbeds import own_testbed
from tests.system.test_fallback_matrix import Network

pytestmark = pytest.mark.slow
NPUS = ("ethos_n", "ethos_u")
TOO_LITTLE = {"what": "shrunk_sram", "name": "less", "bytes": 64}
NETWORK = Network("N", 1)
"""A convolution."""


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """NPUs that take faults, a CPU, and a framework."""
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in (*NPUS, "cpu_ref")))
    with own_testbed(topology, faults=FaultOptions(allowed=True)) as bed:
        yield bed


@pytest.fixture(scope="module")
def framework(testbed: Testbed) -> Iterator[Framework]:
    with connect(testbed.framework) as session:
        yield session


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "convolution.tflite"
    path.write_bytes(NETWORK.content)
    return path


@pytest.mark.parametrize("npu", NPUS)
def test_the_framework_survives_an_sram_that_shrinks(
    testbed: Testbed, framework: Framework, file: Path, npu: str
) -> None:
    pins, feed = {"name:*": npu}, NETWORK.feed()
    model = framework.load(file, pins=pins)
    (name, expected), *_ = model.run(feed).items()
    with FaultControl(testbed.endpoint(npu)) as control:
        control.set(TOO_LITTLE)
        outputs, report = model.run_with_report(feed)
        assert (report.fell_back, [step.device for step in report.steps]) == (True, ["cpu_ref"])
        np.testing.assert_allclose(outputs[name].astype(int), expected.astype(int), atol=1)
        with pytest.raises(HalError, match=r"there are 64 (of SRAM )?\(injected fault 'less'\)"):
            framework.load(file, pins=pins)
        planned = framework.load(file, devices=[npu, "cpu_ref"])
        assert list(planned.steps) == ["cpu_ref"]
        assert re.search(r"there are 64 (of SRAM )?\(injected", planned.explain().operations[0].refusals[npu])
        control.clear()
        outputs, report = model.run_with_report(feed)
        assert not report.fell_back
        np.testing.assert_array_equal(outputs[name], expected)
        model.unload()
        planned.unload()
