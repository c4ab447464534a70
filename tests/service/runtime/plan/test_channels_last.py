"""Imported models with channels last: names, nodes and memory."""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnhal.types import OperandLifeTime, OperationType
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.onnx import import_onnx
from nnhal_service.runtime.plan.channels_last import ConvertedModel, with_channels_last
from tests.support.channels_first import assert_equal_in_value
from tests.support.onnx_cnns import Cnn
from tests.support.onnx_models import onnx_model, resolved


def convolution() -> ImportedModel:
    """One node, whose input and output are those of the model."""
    net = Cnn()
    return import_onnx(net.model(net.conv("x", 8)), None)


def converted(imported: ImportedModel) -> ConvertedModel:
    result = with_channels_last(imported)
    assert result is not None
    assert_equal_in_value(imported.resolved(), resolved(result.imported.model))
    return result


def test_added_operations_stand_for_no_node() -> None:
    result = converted(convolution())
    assert result.origins == (None, 0, None)
    assert result.imported.operation_nodes == ((), ("node_conv0",), ())


def test_a_value_in_two_orders_has_two_names() -> None:
    result = converted(convolution())
    main, names = result.imported.model.main, result.imported.operand_names
    assert [names[each] for operation in main.operations for each in (operation.inputs[0], *operation.outputs)] == [
        *("x", "x (channels last)"),
        *("x (channels last)", "conv0 (channels last)"),
        *("conv0 (channels last)", "conv0"),
    ]
    assert [(tensor.name, names[tensor.operand]) for tensor in result.imported.inputs] == [("x", "x")]
    assert [(tensor.name, names[tensor.operand]) for tensor in result.imported.outputs] == [("conv0", "conv0")]


def test_large_constants_lie_in_pools() -> None:
    net = Cnn()
    images = net.conv("x", 8, 3, 4)
    net.constants["map"] = np.arange(8 * 8 * 8, dtype=np.float32).reshape(8, 8, 8)
    imported = import_onnx(net.model(net.dense(net.add("Flatten", net.add("Add", images, "map")), 512)), None)
    result = converted(imported)
    model = result.imported.model
    assert model.pools[: len(imported.model.pools)] == imported.model.pools
    assert len(model.pools) == len(imported.model.pools) + 1
    inline = [each for each in model.main.operands if each.lifetime == OperandLifeTime.CONSTANT_COPY]
    assert max(each.location.length for each in inline) <= 128
    assert len(model.operand_values) < 1024
    assert sum(operation.type == OperationType.TRANSPOSE for operation in model.main.operations) == 1


def test_a_model_without_images_stays_as_it_is() -> None:
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 3, 4, 4]}, ["y"])
    assert with_channels_last(import_onnx(model, None)) is None
