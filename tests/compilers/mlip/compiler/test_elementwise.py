"""Functions of tables, products, slices and images that grow, compiled and run beside the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pytest

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.operators import TABLES
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_compiling import check_graph

_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "leaky_relu": {"alpha": 0.1},
}


def every_function() -> FlowGraph:
    """Functions behind a convolution, a sum, a product and alone."""
    g = GraphOf()
    x = g.input(1, 4, 8, 8)
    made = []
    for number, operator in enumerate(sorted(TABLES)):
        data = g.conv(x, 4, pad=1)
        if number % 4 == 1:
            data = g.op("add", data, x)
        elif number % 4 == 2:
            data = g.op("multiply", data, x)
        elif number % 4 == 3:
            data = g.max_pool(data, 3, 1, 1)
        made.append(g.op(operator, data, **_PARAMETERS.get(operator, {})))
    return g.build(*made)


def squeeze_and_excite() -> FlowGraph:
    g = GraphOf()
    x = g.op("hard_swish", g.bias(g.conv(g.input(1, 3, 12, 12), 16, pad=1, stride=2)))
    gate = g.relu(g.bias(g.conv(g.global_avg_pool(x), 4, 1)))
    gate = g.op("hard_sigmoid", g.bias(g.conv(gate, 16, 1)), alpha=0.2, beta=0.5)
    return g.build(g.conv(g.op("multiply", x, gate), 8, 1))


def products() -> FlowGraph:
    """With a constant of each channel, one of each pixel, and a number."""
    g = GraphOf()
    x = g.conv(g.input(1, 3, 6, 10), 8, pad=1)
    made = [g.op("multiply", x, g.random_constant(*shape)) for shape in ((8, 1, 1), (6, 10), (1,))]
    slopes = g.op("prelu", x, g.random_constant(8, 1, 1))
    return g.build(*made, g.op("subtract", made[0], made[1]), slopes, g.op("divide", x, g.constant(np.array(3))))


def slices() -> FlowGraph:
    """Slices of what is computed, of the input, of each other, of a view; that are read, joined, viewed, returned."""
    g = GraphOf()
    x = g.input(1, 8, 6, 8)
    left, right = (cut(g, x, 1, begin, begin + 4) for begin in (0, 4))
    bent = g.conv(left, 8, pad=1)
    inner = cut(g, cut(g, bent, 1, 2, 7), 2, 1, 5)
    joined = g.concat(g.relu(inner), cut(g, g.conv(right, 5, 3, pad=(0, 1, 0, 1)), 1, 0, 3))
    rows = g.reshape(inner, 1, 5 * 4 * 8)
    return g.build(joined, g.dense(cut(g, rows, 1, 10, 100), 3), cut(g, bent, 1, 0, 2), right)


def cut(g: GraphOf, x: str, axis: int, begin: int, end: int) -> str:
    return g.op("strided_slice", x, axis=axis, begin=begin, end=end)


def growing() -> FlowGraph:
    """Images that grow before and behind convolutions, and windows that do not overlap."""
    g = GraphOf()
    x = g.conv(g.input(2, 3, 5, 7), 4, pad=1)
    larger = g.op("upsampling", g.relu(x), scale_h=2, scale_w=2, layout="NCHW")
    wider = g.op("upsampling", x, scale_h=1, scale_w=3, layout="NCHW")
    spread = g.op("conv2d_transpose", x, g.random_constant(4, 6, 2, 2, name="weight"), **_TRANSPOSED)
    return g.build(g.conv(larger, 2, pad=1), wider, g.relu(g.batch_norm(g.bias(spread))))


_TRANSPOSED: Mapping[str, Any] = {
    "strides": (2, 2),
    "padding": (0, 0, 0, 0),
    "output_padding": (0, 0),
    "dilation": (1, 1),
    "groups": 1,
    "channels": 6,
    "kernel_size": (2, 2),
    "data_layout": "NCHW",
    "kernel_layout": "IOHW",
}


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [1, 8])
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
@pytest.mark.parametrize("make", [every_function, squeeze_and_excite, products, slices, growing])
def test_the_values_are_those_of_the_reference(
    make: Callable[[], FlowGraph], quantize: Literal["fp16", "int8"], tiles: int
) -> None:
    found = check_graph(make(), quantize, num_tiles=tiles)
    assert len(found) == 1
