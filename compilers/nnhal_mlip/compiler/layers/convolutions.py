"""Convolutions and dense layers: weights as the tiles read them, with batch normalisation and biases folded in."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.draft import NetworkDraft, activation, finite, real_constant
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, LayerWeights, TileLayer
from nnhal_mlip.flow.files.layers import Conv2DAttributes, FullyConnectedAttributes
from nnhal_mlip.flow.files.nodes_file import KernelNode
from nnhal_mlip.program.program import TaskKind, TaskWindow


def add_convolution(
    draft: NetworkDraft, node: KernelNode, attrs: Conv2DAttributes, operands: list[str], output: str
) -> None:
    place = node.user_name
    data = _only(operands, place)
    if attrs.data_layout != "NHWC" or attrs.kernel_layout != "OHWI":
        got = f"data in {attrs.data_layout or 'no layout'} and weights in {attrs.kernel_layout}"
        raise MlipCompileError(f"{place}: {got}, expected NHWC and OHWI")
    kernel, scales = real_constant(draft, attrs.kernel_const_name)
    channels, inputs = kernel.shape[0], draft.values[data].extents[3]
    groups = attrs.groups
    if groups < 1 or inputs % groups or channels % groups or kernel.shape[3] * groups != inputs:
        raise MlipCompileError(
            f"{place}: {groups} groups of {inputs} input and {channels} output channels with weights "
            f"{list(kernel.shape)}, expected groups that divide both"
        )
    kernel, biases, scales = _folded(draft, attrs, kernel, scales, place)
    depthwise = groups == inputs == channels and groups > 1
    top, left, bottom, right = attrs.padding
    height, width = kernel.shape[1:3]
    window = TaskWindow((height, width), _pair(attrs.strides), _pair(attrs.dilation), (top, left, bottom, right))
    draft.layers.append(
        TileLayer(
            draft.kernel,
            TaskKind.DEPTHWISE if depthwise else TaskKind.CONVOLUTION,
            (LayerOperand(data),),
            LayerOperand(output),
            draft.values[output].extents,
            window,
            activation(node),
            LayerWeights(kernel, biases, scales),
            1 if depthwise else groups,
        )
    )


def add_transposed_convolution(
    draft: NetworkDraft, node: KernelNode, attrs: Conv2DAttributes, operands: list[str], output: str
) -> None:
    """Add a transposed convolution whose windows do not overlap to a draft.

    It is a convolution of 1 x 1 with as many times the channels as a window has pixels, of which each row's are brought
    together then.
    """
    place = node.user_name
    data = _only(operands, place)
    kernel, scales = real_constant(draft, attrs.kernel_const_name)
    channels, high, wide, inputs = kernel.shape
    batch, height, width, given = draft.values[data].extents
    if attrs.groups != 1 or given != inputs or any(attrs.padding) or attrs.strides != (high, wide):
        got = f"a window of {[high, wide]} by {list(attrs.strides)}, {attrs.groups} groups, padding {attrs.padding}"
        raise MlipCompileError(f"{place}: {got}, expected windows as large as their strides, in one group")
    kernel, biases, scales = _folded(draft, attrs, kernel, scales, place)
    pixels = high * wide
    expanded = kernel.transpose(1, 2, 0, 3).reshape(pixels * channels, 1, 1, inputs)
    biases = None if biases is None else np.tile(biases, pixels)
    if scales is not None and scales.size > 1:
        scales = np.tile(scales, pixels)
    scale = draft.values[output].scale
    made = draft.inner(f"{output}:windows", (batch, height, width, pixels * channels), scale)
    extents = draft.values[made].extents
    weights = LayerWeights(expanded, biases, scales)
    draft.layers.append(
        TileLayer(
            draft.kernel,
            TaskKind.CONVOLUTION,
            (LayerOperand(data),),
            LayerOperand(made),
            extents,
            range=activation(node),
            weights=weights,
        )
    )
    rows = draft.seen_as(made, (batch * height, width, high, wide * channels))
    turned = draft.inner(f"{output}:rows", (batch * height, high, width, wide * channels), scale)
    draft.add_copy(rows, turned, (2, 0, 1, 3), (1, 0, 2, 3))  # the rows of the data are what tiles share
    draft.set_view(output, turned)


def add_dense(
    draft: NetworkDraft, node: KernelNode, attrs: FullyConnectedAttributes, operands: list[str], output: str
) -> None:
    """Add a dense layer to a draft, as a convolution of 1 x 1."""
    place = node.user_name
    data = _only(operands, place)
    kernel, scales = real_constant(draft, attrs.kernel_const_name)
    kernel = finite(kernel.reshape(kernel.shape[-2:]), place, "weights")
    extents = draft.values[data].extents
    if attrs.weights_need_transform == "yes":
        batch, height, width, channels = extents
        kernel = kernel.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(kernel), -1)
        data = draft.seen_as(data, (1, batch, 1, height * width * channels))
    if draft.values[data].extents[3] != kernel.shape[1]:
        got = f"weights {list(kernel.shape)} for data {list(draft.values[data].extents)}"
        raise MlipCompileError(f"{place}: {got}, expected as many inputs as the data's last axis has")
    biases = None
    if attrs.bias_const_name is not None:
        biases = finite(real_constant(draft, attrs.bias_const_name)[0].reshape(-1), place, "biases")
    draft.layers.append(
        TileLayer(
            draft.kernel,
            TaskKind.CONVOLUTION,
            (LayerOperand(data),),
            LayerOperand(output),
            draft.values[output].extents,
            range=activation(node),
            weights=LayerWeights(kernel.reshape(len(kernel), 1, 1, -1), biases, scales),
        )
    )


def _folded(
    draft: NetworkDraft, attrs: Conv2DAttributes, kernel: Array, scales: Array | None, place: str
) -> tuple[Array, Array | None, Array | None]:
    """Return weights, biases and the weights' scales after batch normalisation."""
    biases = None
    if attrs.bias_const_name is not None:
        biases = real_constant(draft, attrs.bias_const_name)[0].reshape(-1)
    if attrs.mean_const_name is not None and attrs.var_const_name is not None:
        mean, variance = (
            real_constant(draft, name)[0].reshape(-1) for name in (attrs.mean_const_name, attrs.var_const_name)
        )
        gain = 1 / np.sqrt(variance.astype(np.float64) + (attrs.epsilon or 0.0))
        if attrs.gamma_const_name is not None and attrs.scale is not False:
            gain = gain * real_constant(draft, attrs.gamma_const_name)[0].reshape(-1)
        kernel = kernel * gain[:, None, None, None]
        biases = ((0.0 if biases is None else biases) - mean) * gain
        if attrs.beta_const_name is not None and attrs.center is not False:
            biases = biases + real_constant(draft, attrs.beta_const_name)[0].reshape(-1)
        scales = None
    if biases is not None:
        finite(biases, place, "biases, with the batch normalisation folded in,")
    return finite(kernel, place, "weights, with the batch normalisation folded in,"), biases, scales


def _only(operands: list[str], place: str) -> str:
    if len(operands) != 1:
        raise MlipCompileError(f"{place}: weights or biases are computed, expected constants")
    return operands[0]


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    first, second = values
    return first, second
