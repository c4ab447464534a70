"""Checks that the shapes in a nodes file follow from one another, by the rules of the flow's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NoReturn

import numpy as np

from nnhal_mlip.flow.errors import FlowError, FlowFilesError
from nnhal_mlip.flow.files.constants_file import ConstantsFile
from nnhal_mlip.flow.files.kernel_attributes import KernelAttributes
from nnhal_mlip.flow.files.layers import (
    BATCH_FLATTEN,
    CONV2D_TRANSPOSE,
    GLOBAL_AVERAGE_POOL,
    MAX_POOL,
    RESHAPE,
    SQUEEZE,
    ConcatAttributes,
    Conv2DAttributes,
    FullyConnectedAttributes,
    GlobalPoolAttributes,
    LayerNormAttributes,
    LayoutTransformAttributes,
    MatmulAttributes,
    MeanAttributes,
    PadAttributes,
    PoolAttributes,
    SliceAttributes,
    SoftmaxAttributes,
    SumAttributes,
    TransposeAttributes,
    UpsamplingAttributes,
)
from nnhal_mlip.flow.files.node_checks import place
from nnhal_mlip.flow.files.nodes_file import KernelNode, NodesFile
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue
from nnhal_mlip.flow.graph.operators import TABLES, Operator, image_axes
from nnhal_mlip.flow.graph.shapes import infer

_Shape = tuple[int, ...]
_OF_SEVERAL = (SumAttributes, ConcatAttributes, MatmulAttributes)
"""Layers that may have several inputs."""


def check_shapes(file: NodesFile, constants: ConstantsFile) -> None:
    """Raise FlowFilesError, with the user's name of the layer, if shapes contradict one another."""
    for node in file.kernels:
        attrs, data = node.attrs, [file.nodes[edge.node].attrs.shape[0] for edge in node.inputs]
        _check_written(node, data)
        try:
            result = _result(node, data, constants)
        except FlowFilesError:
            raise
        except FlowError as error:
            raise FlowFilesError(f"{place(node)}: {error}") from error
        if result != attrs.out_layout_shape:
            _refuse(node, f"out_layout_shape {list(attrs.out_layout_shape)}", f"{list(result)}, which its inputs make")


def _check_written(node: KernelNode, data: Sequence[_Shape]) -> None:
    """Compare the shapes that a layer writes with those of its edges. Only sums write them with further ones."""
    attrs = node.attrs
    if not data or (len(data) > 1 and not isinstance(attrs, _OF_SEVERAL)):
        _refuse(node, f"{len(data)} inputs", "one")
    written = attrs.data_layout_shapes or (attrs.data_layout_shape,)
    if len(written) != len(data):
        _refuse(node, f"{len(written)} data_layout_shapes", f"{len(data)}, one an input")
    pairs = [("data_layout_shape", attrs.data_layout_shape, data[0])]
    pairs += [(f"data_layout_shape_{number}", *pair) for number, pair in enumerate(zip(written, data, strict=True))]
    pairs += [("out_layout_shape", attrs.out_layout_shape, attrs.shape[0])]
    for key, got, expected in pairs:
        if got != expected and not (isinstance(attrs, SumAttributes) and _core(got) == _core(expected)):
            _refuse(node, f"{key} {list(got)}", f"{list(expected)}")


def _result(node: KernelNode, data: Sequence[_Shape], constants: ConstantsFile) -> _Shape:
    """Return the shape of a layer's result."""
    attrs = node.attrs
    match attrs:
        case Conv2DAttributes():
            return _convolution(node, attrs, data[0])
        case FullyConnectedAttributes():
            return _fully_connected(node, attrs, data[0])
        case PoolAttributes():
            return _pool(node, attrs, data[0])
        case GlobalPoolAttributes():
            if list(attrs.kernel_layout_shape) != (window := [data[0][axis] for axis in image_axes(attrs.layout)]):
                _refuse(node, f"kernel_layout_shape {list(attrs.kernel_layout_shape)}", str(window))
            average = attrs.layer_name == GLOBAL_AVERAGE_POOL
            operator = Operator.GLOBAL_AVG_POOL2D if average else Operator.GLOBAL_MAX_POOL2D
            return _infer(node, operator, data, {"layout": attrs.layout})
        case SumAttributes():
            operands = list(attrs.data_layout_shapes or (attrs.data_layout_shape,))
            if attrs.input_const:
                operands.append(shape := attrs.input_const_shape or ())
                if _core(shape) != _core(attrs.input_const.shape):
                    _refuse(node, f"input_const_shape {list(shape)}", f"{list(attrs.input_const.shape)} with ones")
            return _infer(node, Operator.ADD, operands, {})
        case ConcatAttributes():
            return _infer(node, Operator.CONCATENATE, _fields(node, attrs, data, constants), {"axis": attrs.axis})
        case LayoutTransformAttributes():
            layouts: dict[str, Attribute] = {"src_layout": attrs.src_layout, "dst_layout": attrs.dst_layout}
            return _infer(node, Operator.LAYOUT_TRANSFORM, data, layouts)
        case TransposeAttributes():
            return _infer(node, Operator.TRANSPOSE, data, {"axes": attrs.axes})
        case PadAttributes():
            width: dict[str, Attribute] = {"pad_width": attrs.pad_width, "pad_value": attrs.pad_value}
            return _infer(node, Operator.PAD, data, {**width, "pad_mode": "constant"})
        case SliceAttributes():
            ends: dict[str, Attribute] = {"axis": attrs.axis, "begin": attrs.begin, "end": attrs.end}
            return _infer(node, Operator.STRIDED_SLICE, data, ends)
        case UpsamplingAttributes():
            times: dict[str, Attribute] = {"scale_h": attrs.scale_h, "scale_w": attrs.scale_w, "layout": attrs.layout}
            return _infer(node, Operator.UPSAMPLING, data, times)
        case SoftmaxAttributes():
            return _infer(node, Operator.SOFTMAX, data, {"axis": attrs.axis})
        case LayerNormAttributes():
            return _infer(node, Operator.LAYER_NORM, data, {"axis": attrs.axis, "epsilon": attrs.epsilon})
        case MatmulAttributes():
            turns: dict[str, Attribute] = {"transpose_a": attrs.transpose_a, "transpose_b": attrs.transpose_b}
            return _infer(node, Operator.BATCH_MATMUL, data, turns)
        case MeanAttributes():
            return _infer(node, Operator.MEAN, data, {"axis": attrs.axis, "keepdims": attrs.keepdims})
    return _without_attributes(node, attrs, data)


def _without_attributes(node: KernelNode, attrs: KernelAttributes, data: Sequence[_Shape]) -> _Shape:
    result = attrs.shape[0]
    match attrs.layer_name:
        case _ if attrs.layer_name == RESHAPE:
            return _infer(node, Operator.RESHAPE, data, {"newshape": result})
        case _ if attrs.layer_name == BATCH_FLATTEN:
            return _infer(node, Operator.BATCH_FLATTEN, data, {})
        case _ if attrs.layer_name == SQUEEZE:
            if _core(result) != _core(data[0]) or len(result) >= len(data[0]):
                _refuse(node, f"shape {list(result)} of {list(data[0])}", "the same without axes of length 1")
            return result
    if attrs.activation_type not in ("relu", "clip", *TABLES):
        _refuse(node, f"activation_type {attrs.activation_type!r}", f"relu, clip, {', '.join(sorted(TABLES))}")
    return data[0]


def _convolution(node: KernelNode, attrs: Conv2DAttributes, data: _Shape) -> _Shape:
    if (layouts := (attrs.data_layout, attrs.kernel_layout)) != ("NHWC", "OHWI"):
        _refuse(node, f"layouts {' and '.join(layouts)}", "NHWC and OHWI")
    if attrs.kernel_const is None:
        _refuse(node, "no kernel_const", "constant weights")
    statistics = [attrs.gamma_const, attrs.beta_const, attrs.mean_const, attrs.var_const]
    if any(statistics) and (not all(statistics) or attrs.epsilon is None):
        _refuse(node, "a part of a batch normalisation", "epsilon, gamma, beta, mean and var, or none of them")
    for constant in (attrs.bias_const, *statistics):
        if constant and prod(constant.shape) != attrs.channels:
            _refuse(
                node, f"'{constant.name}' of shape {list(constant.shape)}", f"{attrs.channels} values, one a channel"
            )
    attributes: dict[str, Attribute] = {
        "strides": attrs.strides,
        "padding": attrs.padding,
        "dilation": attrs.dilation,
        "groups": attrs.groups,
        "channels": attrs.channels,
        "kernel_size": attrs.kernel_size,
        "data_layout": attrs.data_layout,
        "kernel_layout": attrs.kernel_layout,
    }
    if attrs.layer_name == CONV2D_TRANSPOSE:
        attributes["output_padding"] = (0, 0)
        return _infer(node, Operator.CONV2D_TRANSPOSE, [data, attrs.kernel_const.shape], attributes)
    return _infer(node, Operator.CONV2D, [data, attrs.kernel_const.shape], attributes)


def _fully_connected(node: KernelNode, attrs: FullyConnectedAttributes, data: _Shape) -> _Shape:
    if attrs.kernel_const is None:
        _refuse(node, "no kernel_const", "constant weights")
    if attrs.kernel_const.shape[0] != attrs.units:
        _refuse(node, f"units {attrs.units}", f"{attrs.kernel_const.shape[0]}, as the weights have them")
    if attrs.bias_const and prod(attrs.bias_const.shape) != attrs.units:
        _refuse(node, f"bias of shape {list(attrs.bias_const.shape)}", f"{attrs.units} values, one a unit")
    if attrs.weights_need_transform:
        if len(data) != 4 or attrs.data_layout != "NHWC":
            _refuse(node, f"data of shape {list(data)} in {attrs.data_layout} to flatten", "an image in NHWC")
        data = (data[0], prod(data[1:]))
    return _infer(node, Operator.DENSE, [data, attrs.kernel_const.shape], {})


def _pool(node: KernelNode, attrs: PoolAttributes, data: _Shape) -> _Shape:
    if attrs.kernel_layout_shape != attrs.pool_size:
        _refuse(node, f"kernel_layout_shape {list(attrs.kernel_layout_shape)}", f"{list(attrs.pool_size)} as pool_size")
    attributes: dict[str, Attribute] = {
        "pool_size": attrs.pool_size,
        "strides": attrs.strides,
        "dilation": attrs.dilation,
        "padding": attrs.padding,
        "ceil_mode": attrs.ceil_mode,
        "layout": attrs.layout,
    }
    zeros = attrs.nnhal.zero_padding if attrs.nnhal else None
    if zeros and any(not 0 <= zero <= around for zero, around in zip(zeros, attrs.padding, strict=False)):
        _refuse(node, f"nnhal.zero_padding {list(zeros)}", f"a part of padding {list(attrs.padding)}")
    if attrs.layer_name == MAX_POOL:
        return _infer(node, Operator.MAX_POOL2D, [data], attributes)
    if attrs.count_include_pad is None:
        _refuse(node, "no count_include_pad", "0 or 1")
    attributes["count_include_pad"] = attrs.count_include_pad
    return _infer(node, Operator.AVG_POOL2D, [data], attributes)


def _fields(
    node: KernelNode, attrs: ConcatAttributes, data: Sequence[_Shape], constants: ConstantsFile
) -> list[_Shape]:
    """Return the shapes of all fields of a concatenation: constants at their positions, data at the others."""
    held = (attrs.nnhal.constant_fields if attrs.nnhal else None) or {}
    shapes = list(data)
    for position in sorted(held):
        if not 0 <= position <= len(shapes):
            _refuse(node, f"nnhal.constant_fields at {sorted(held)}", f"positions among {len(data) + len(held)}")
        shape = constants.entries[held[position]].shape
        shapes.insert(position, shape[len(shape) - len(data[0]) :])
    return shapes


def _infer(
    node: KernelNode, operator: Operator, shapes: Sequence[_Shape], attributes: Mapping[str, Attribute]
) -> _Shape:
    values = [FlowValue(tuple(shape), np.dtype(np.float32)) for shape in shapes]
    return infer(operator, values, attributes, node.user_name).shape


def _core(shape: _Shape) -> list[int]:
    """Return a shape without axes of length 1."""
    return [extent for extent in shape if extent != 1]


def _refuse(node: KernelNode, got: str, expected: str) -> NoReturn:
    raise FlowFilesError(f"{place(node)}: got {got}, expected {expected}")
