"""Activations, arithmetic and normalisation."""

from __future__ import annotations

from nnhal_mlip.command.onnx_nodes.node_import import NodeImport

_SOFTMAX_OF_ONE_AXIS = 13
"""From this opset on, Softmax normalises along one axis; before, along all from that axis on."""


def relu(each: NodeImport) -> bool:
    return each.finish("relu", [each.input()])


def sigmoid(each: NodeImport) -> bool:
    return each.finish("sigmoid", [each.input()])


def tanh(each: NodeImport) -> bool:
    return each.finish("tanh", [each.input()])


def leaky_relu(each: NodeImport) -> bool:
    """Multiply what is negative by alpha."""
    return each.finish("leaky_relu", [each.input()], {"alpha": float(each.attribute("alpha", 0.01))})


def erf(each: NodeImport) -> bool:
    return each.finish("erf", [each.input()])


def gelu(each: NodeImport) -> bool:
    """The Gaussian error linear unit, or its approximation."""
    operator = "gelu_tanh" if each.attribute("approximate", "none") == "tanh" else "gelu"
    return each.finish(operator, [each.input()])


def hard_sigmoid(each: NodeImport) -> bool:
    """alpha * x + beta, within 0 and 1."""
    alpha, beta = float(each.attribute("alpha", 0.2)), float(each.attribute("beta", 0.5))
    return each.finish("hard_sigmoid", [each.input()], {"alpha": alpha, "beta": beta})


def hard_swish(each: NodeImport) -> bool:
    """x * hard_sigmoid(x)."""
    return each.finish("hard_swish", [each.input()])


def prelu(each: NodeImport) -> bool:
    """Multiply what is negative by a slope, which broadcasts to the data."""
    return each.finish("prelu", each.all_inputs())


def clip(each: NodeImport) -> bool:
    """Import a range with constant ends. Either end may be missing."""
    ends = []
    for index, name, missing in ((1, "min", float("-inf")), (2, "max", float("inf"))):
        if each.has(index):
            given = each.constant(index)
            if given is None:
                return False
            ends.append(float(given.item()))
        else:
            ends.append(float(each.attribute(name, missing)))
    return each.finish("clip", [each.input()], {"a_min": ends[0], "a_max": ends[1]})


def softmax(each: NodeImport) -> bool:
    """Along one axis."""
    shape = each.shape()
    default = -1 if each.opset >= _SOFTMAX_OF_ONE_AXIS else 1
    axis = each.attribute("axis", default)
    axis = axis + len(shape) if axis < 0 else axis
    if each.opset < _SOFTMAX_OF_ONE_AXIS and any(length != 1 for length in shape[axis + 1 :]):
        return False
    return axis < len(shape) and each.finish("softmax", [each.input()], {"axis": axis})


def batch_normalization(each: NodeImport) -> bool:
    """With the mean and variance that were learnt."""
    if each.attribute("training_mode", 0) or not each.attribute("spatial", 1) or len(each.shape()) < 2:
        return False
    inputs = [each.input(index) for index in range(5)]
    return each.finish("batch_norm", inputs, {"axis": 1, "epsilon": float(each.attribute("epsilon", 1e-5))})


def add(each: NodeImport) -> bool:
    return each.finish("add", each.all_inputs())


def subtract(each: NodeImport) -> bool:
    return each.finish("subtract", each.all_inputs())


def multiply(each: NodeImport) -> bool:
    return each.finish("multiply", each.all_inputs())


def divide(each: NodeImport) -> bool:
    return each.finish("divide", each.all_inputs())


def total(each: NodeImport) -> bool:
    """The sum of any number, from the left."""
    first, *others = each.all_inputs()
    if not others:
        return each.finish("copy", [first])
    for other in others[:-1]:
        first = each.step("add", [first, other])
    return each.finish("add", [first, others[-1]])
