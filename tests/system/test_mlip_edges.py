"""Several subgraphs on mlip: what passes between them, and in which type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnhal.errors import HalError
from nnhal_client import Framework
from nnhal_tools.up import DeviceEntry
from tests.support.testbeds import framework_over

CHANNELS, SIDE = 8, 6
SKIPPED = "skipped"
"""The value that the first subgraph makes and the last one reads, around the operation of another device."""
VALUES = np.random.default_rng(3).uniform(-1, 1, (1, CHANNELS, SIDE, SIDE)).astype(np.float32)


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    with framework_over(
        DeviceEntry(driver="mlip", options={"checked": True}), DeviceEntry(driver="cpu_ref")
    ) as session:
        yield session


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """conv -> sigmoid -> conv -> + conv of the first conv, of which mlip lacks the sigmoid."""
    random = np.random.default_rng(5)

    def weights(name: str) -> onnx.TensorProto:
        return numpy_helper.from_array(random.normal(0, 0.1, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32), name)

    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["conv1"], "first", **window),
        helper.make_node("Conv", ["conv1", "w3"], [SKIPPED], "beside", **window),
        helper.make_node("Sigmoid", ["conv1"], ["squashed"], "squash"),
        helper.make_node("Conv", ["squashed", "w2"], ["conv2"], "second", **window),
        helper.make_node("Add", ["conv2", SKIPPED], ["y"], "sum"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, CHANNELS, SIDE, SIDE]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "around", [x], [y], [weights(name) for name in ("w1", "w2", "w3")])
    path = tmp_path_factory.mktemp("mlip") / "around.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


@pytest.mark.contract("EX-18")
def test_a_float32_model_that_is_not_relaxed_is_refused_with_the_hint(framework: Framework, network: Path) -> None:
    with pytest.raises(HalError, match=r"in a model that is not relaxed.*; relax the model's computation"):
        framework.load(network, pins={"name:first": "mlip"})


def test_a_value_passes_as_float16_between_subgraphs_around_another_device(framework: Framework, network: Path) -> None:
    pins = {"name:*": "mlip", "name:squash": "cpu_ref"}
    model = framework.load(network, pins=pins, relaxed=True)
    explained = model.explain()
    assert [step.device for step in explained.steps] == ["mlip", "cpu_ref", "mlip"]
    edges = {edge.value: edge for edge in explained.edges if edge.source_step is not None and edge.source == "mlip"}
    assert edges["conv1"].bytes == VALUES.size * 4, "another device reads it"
    assert edges[SKIPPED].strategy == "DirectCompatibility"
    assert edges[SKIPPED].bytes == VALUES.size * 2
    assert edges[SKIPPED].reason == "both ends are on mlip; it passes as TENSOR_FLOAT16"
    outputs, report = model.run_with_report({"x": VALUES})
    (entry,) = (entry for entry in report.ledger if entry.value == SKIPPED)
    assert (entry.bytes, entry.copied_bytes) == (VALUES.size * 2, 0)
    expected = framework.load(network, devices=["cpu_ref"]).run({"x": VALUES})["y"]
    np.testing.assert_allclose(outputs["y"], expected, atol=0.01 * np.abs(expected).max())
