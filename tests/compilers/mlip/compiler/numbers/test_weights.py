"""Weights in the numbers of the tiles."""

from __future__ import annotations

import numpy as np

from nnhal_mlip.compiler.layers.aliasing import alias_values
from nnhal_mlip.compiler.layers.reading import read_layers
from nnhal_mlip.compiler.numbers.scales import int8_scales
from nnhal_mlip.compiler.numbers.weights import pack, rounded
from nnhal_mlip.program.program import TensorType
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_compiling import GraphInFiles


def test_halves_are_rounded_away_from_zero() -> None:
    assert rounded(np.array([0.5, 1.5, -0.5, -2.5, 0.49])).tolist() == [1, 2, -1, -3, 0]


def test_int8_weights_have_a_scale_for_each_channel() -> None:
    g = GraphOf("NHWC")
    given = GraphInFiles(g.build(g.bias(g.conv(g.input(1, 8, 8, 4), 6, 3))))
    network = read_layers(given.files[0])
    aliased = alias_values(network, int8_scales(network, given.ranges))
    (layer,) = aliased.network.layers
    packed = pack(layer, aliased, TensorType.INT8)
    assert layer.weights is not None and packed.factors is not None
    assert np.abs(packed.kernel.reshape(6, -1).astype(int)).max(axis=1).tolist() == [127] * 6
    scales = np.abs(layer.weights.kernel).reshape(6, -1).max(axis=1) / 127
    distance = np.abs(packed.kernel * scales[:, None, None, None] - layer.weights.kernel)
    assert 0 < distance.max() <= scales.max() * 0.51
