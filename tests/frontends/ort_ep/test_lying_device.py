"""A device that reports dimensions which an output cannot have, met through the provider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnhal.endpoint import Endpoint
from nnhal.remote.faults import FaultControl
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.frontends.ort_ep.sessions import answers, assert_same, model_of, session
from tests.support.testbeds import own_testbed

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the provider

FLOAT = TensorProto.FLOAT
Fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """A framework over cpu_acc, which takes faults."""
    topology, faults = Topology(device=(DeviceEntry(driver="cpu_acc"),)), FaultOptions(allowed=True)
    with own_testbed(topology, faults=faults) as bed:
        yield bed


@pytest.mark.parametrize(("shape", "length"), [([2, 3], 3), (["n", 3], 3), ([2, "n"], 512)])
def test_a_device_that_reports_dimensions_which_model_or_memory_cannot_have_gives_no_answer(
    provider: Testbed, shape: Sequence[int | str], length: int
) -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    model = model_of([relu], [("x", FLOAT, shape)], [("y", FLOAT, shape)])
    made, given = session(model, devices="cpu_acc"), {"x": np.ones((2, length), np.float32)}
    assert_same(made, model, given)
    with FaultControl(Endpoint(provider.directory / "cpu_acc")) as control:
        control.set({"what": "shapes"})
        with pytest.raises(Fail, match=rf"dimensions \[2, {length + 1}\] of "):
            answers(made, given)
        control.clear()
    assert_same(made, model, given)
