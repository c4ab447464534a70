"""Operators that move values, against ONNX Runtime."""

from __future__ import annotations

from onnx.helper import make_node

from tests.support.onnx_models import check, onnx_model, random

X = {"x": random(1, 4, 3, 1)}


def test_a_batch_of_unknown_size_stays_unknown() -> None:
    model = onnx_model([make_node("Flatten", ["x"], ["y"])], {"x": ["N", 4, 3]}, ["y"])
    imported = check(model, {"x": random(2, 4, 3)})
    assert imported.inputs[0].shape == (0, 4, 3)
    assert imported.outputs[0].shape == (0, 12)
    assert imported.model.main.operands[imported.outputs[0].operand].dimensions == (0, 12)
