"""LSTM against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

STEPS, BATCH, SIZE, UNITS = 5, 2, 3, 4
X = {"x": random(STEPS, BATCH, SIZE)}


def weights(directions: int) -> dict[str, Any]:
    return {
        "w": random(directions, 4 * UNITS, SIZE, seed=1),
        "r": random(directions, 4 * UNITS, UNITS, seed=2),
        "b": random(directions, 8 * UNITS, seed=3),
        "h": random(directions, BATCH, UNITS, seed=4),
        "c": random(directions, BATCH, UNITS, seed=5),
        "p": random(directions, 3 * UNITS, seed=6),
    }


@pytest.mark.parametrize("inputs", [["x", "w", "r"], ["x", "w", "r", "b"], ["x", "w", "r", "b", "", "h", "c", "p"]])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_all_results_in_all_directions(direction: str, inputs: list[str]) -> None:
    constants = weights(2 if direction == "bidirectional" else 1)
    node = make_node("LSTM", inputs, ["y", "last", "cell"], direction=direction, hidden_size=UNITS)
    model = onnx_model([node], {"x": ["T", BATCH, SIZE]}, ["y", "last", "cell"], constants, 14)
    imported = check(model, X)
    assert operations(imported).count("UNIDIRECTIONAL_SEQUENCE_LSTM") == len(constants["w"])


def test_states_that_are_computed_at_run_time() -> None:
    constants = {name: values for name, values in weights(2).items() if name in "wrb"}
    shapes = {"x": [STEPS, BATCH, SIZE], "h": [2, BATCH, UNITS], "c": [2, BATCH, UNITS]}
    inputs, results = ["x", "w", "r", "b", "", "h", "c"], ["", "last"]
    node = make_node("LSTM", inputs, results, direction="bidirectional", hidden_size=UNITS)
    values = {name: random(*shape, seed=index) for index, (name, shape) in enumerate(shapes.items())}
    check(onnx_model([node], shapes, ["last"], constants, 14), values)


def test_another_activation() -> None:
    node = make_node("LSTM", ["x", "w", "r"], ["y"], activations=["Sigmoid", "Relu", "Relu"], hidden_size=UNITS)
    constants = {name: values * np.float32(0.3) for name, values in weights(1).items()}
    check(onnx_model([node], {"x": [STEPS, BATCH, SIZE]}, ["y"], constants, 14), X)


@pytest.mark.parametrize(
    ("batch", "attributes", "reason"),
    [
        ("N", {}, "a batch of unknown size"),
        (BATCH, {"clip": 1.0}, "clip"),
        (BATCH, {"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "activations HardSigmoid, Tanh, Tanh"),
        (BATCH, {"activations": ["Sigmoid", "Tanh", "Relu"]}, "activations Sigmoid, Tanh, Relu"),
    ],
)
def test_what_the_operation_has_not_is_refused(batch: Any, attributes: dict[str, Any], reason: str) -> None:
    node = make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=UNITS, **attributes)
    model = onnx_model([node], {"x": [STEPS, batch, SIZE]}, ["y"], weights(1), 14)
    with pytest.raises(UnsupportedNode, match=reason):
        import_onnx(model, extension=False)
