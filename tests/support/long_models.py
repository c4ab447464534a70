"""Model files with as many nodes as wanted, to see what loading costs as they grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto
from onnx.helper import make_node

from nnhal.arrays import Array
from tests.support.onnx_models import onnx_model
from tests.support.tflite_files import TfliteFile, floats

_WIDTH = 16
_CHANNELS = 4
_SIDE = 6


def chain(nodes: int) -> bytes:
    """Return ONNX nodes of which each reads the one before."""
    made = [make_node(("Sigmoid", "Tanh")[i % 2], [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(nodes)]
    return onnx_model(made, {"v0": [1, _WIDTH]}, [f"v{nodes}"]).SerializeToString()


def wide(nodes: int) -> bytes:
    """Return ONNX nodes half of which read the input, and the other half add up the results as a tree."""
    half = nodes // 2
    made = [make_node("Tanh", ["x"], [f"v{i}"], f"n{i}") for i in range(half)]
    left = [f"v{i}" for i in range(half)]
    while len(left) > 1:
        sums = [f"s{len(made) + i}" for i in range(len(left) // 2)]
        pairs = list(zip(left[::2], left[1::2], strict=False))
        made += [make_node("Add", pair, [name], name) for pair, name in zip(pairs, sums, strict=True)]
        left = sums + left[2 * len(pairs) :]
    return onnx_model(made, {"x": [1, _WIDTH]}, left).SerializeToString()


def residual(nodes: int) -> bytes:
    """Return ONNX blocks of Conv, Relu, Conv, Add and Relu around a shortcut, with weights of their own."""
    made: list[NodeProto] = []
    constants: dict[str, Array] = {}
    random = np.random.default_rng(0)
    source = "x"
    for block in range(nodes // 5):
        for layer in "ab":
            weights = random.normal(size=(_CHANNELS, _CHANNELS, 3, 3)) / 6
            constants[f"w{block}{layer}"] = weights.astype(np.float32)
        made += [
            make_node("Conv", [source, f"w{block}a"], [f"a{block}"], f"conv{block}a", pads=[1, 1, 1, 1]),
            make_node("Relu", [f"a{block}"], [f"b{block}"], f"relu{block}a"),
            make_node("Conv", [f"b{block}", f"w{block}b"], [f"c{block}"], f"conv{block}b", pads=[1, 1, 1, 1]),
            make_node("Add", [f"c{block}", source], [f"d{block}"], f"add{block}"),
            make_node("Relu", [f"d{block}"], [f"e{block}"], f"relu{block}b"),
        ]
        source = f"e{block}"
    return onnx_model(made, {"x": [1, _CHANNELS, _SIDE, _SIDE]}, [source], constants).SerializeToString()


def constants(nodes: int) -> bytes:
    """Return a chain of ONNX nodes with a constant of its own for each."""
    made = [make_node(("Add", "Mul")[i % 2], [f"v{i}", f"c{i}"], [f"v{i + 1}"], f"n{i}") for i in range(nodes)]
    values = {f"c{i}": np.full((1, 64), 1 + i / nodes, np.float32) for i in range(nodes)}
    return onnx_model(made, {"v0": [1, 64]}, [f"v{nodes}"], values).SerializeToString()


def folded(nodes: int) -> bytes:
    """Return a chain of ONNX nodes, all but the last of which compute with constants."""
    made = [make_node("Add", [f"c{i}", "one"], [f"c{i + 1}"], f"n{i}") for i in range(nodes - 1)]
    made.append(make_node("Add", ["x", f"c{nodes - 1}"], ["y"], "last"))
    values = {"c0": np.zeros(_WIDTH, np.float32), "one": np.float32(1)}
    return onnx_model(made, {"x": [1, _WIDTH]}, ["y"], values).SerializeToString()


def left_over(nodes: int) -> bytes:
    """Return a chain of ONNX nodes half of which the HAL has no operation for."""
    made = [make_node(("Erf", "Tanh")[i % 2], [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(nodes)]
    return onnx_model(made, {"v0": [1, _WIDTH]}, [f"v{nodes}"]).SerializeToString()


def tflite_chain(nodes: int) -> bytes:
    """Return TFLite operators of which each reads the one before."""
    file = TfliteFile()
    value = file.input("x", floats(1, _WIDTH))
    for number in range(nodes):
        (value,) = file.operator(("LOGISTIC", "TANH")[number % 2], [value], {f"v{number}": floats(1, _WIDTH)})
    return file.build(value)


def tflite_residual(nodes: int) -> bytes:
    """Return TFLite blocks of two convolutions and a sum with the input, with weights of their own."""
    file = TfliteFile()
    shape = floats(1, _SIDE, _SIDE, _CHANNELS)
    value = file.input("x", shape)
    random = np.random.default_rng(0)
    bias = file.constant(np.zeros(_CHANNELS, np.float32), name="bias")
    convolution = ("Conv2DOptions", {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1})
    for block in range(nodes // 3):
        source = value
        for layer in "ab":
            weights = (random.normal(size=(_CHANNELS, 3, 3, _CHANNELS)) / 6).astype(np.float32)
            filters = file.constant(weights, name=f"w{block}{layer}")
            (value,) = file.operator("CONV_2D", [value, filters, bias], {f"c{block}{layer}": shape}, convolution)
        (value,) = file.operator("ADD", [value, source], {f"s{block}": shape}, ("AddOptions", {}))
    return file.build(value)


MODELS: Mapping[str, Callable[[int], bytes]] = {
    "chain": chain,
    "wide": wide,
    "residual": residual,
    "constants": constants,
    "folded": folded,
    "left over": left_over,
    "tflite chain": tflite_chain,
    "tflite residual": tflite_residual,
}
"""What makes each kind of model, by name."""
