"""Constants as bytes: fp16, or int8 with a scale for each output channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.compiler.emission.ddr import ConstantsBlock, DdrMap
from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.aliasing import AliasedNetwork
from nnhal_mlip.compiler.layers.tile_layers import TileLayer
from nnhal_mlip.compiler.numbers.scales import LARGEST
from nnhal_mlip.compiler.planning.setting import constants_layout
from nnhal_mlip.program.program import TaskKind, TensorType

_LARGEST_BIAS = 1 << 30
"""The largest magnitude of an int32 bias, so that the sum of the products still has room."""


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The constants of a convolution as a tile reads them."""

    kernel: Array
    """fp16 or int8; [output channels, height, width, input channels]"""
    biases: Array | None
    """float32 or int32."""
    factors: Array | None
    """float32, in int8."""


def pack(layer: TileLayer, aliased: AliasedNetwork, element_type: TensorType) -> PackedWeights:
    """Return the constants of a convolution in the numbers of the tiles.

    Raises:
        MlipCompileError: fp16 cannot hold the weights.
    """
    assert layer.weights is not None
    kernel, biases = layer.weights.kernel, layer.weights.biases
    if element_type is TensorType.FP16:
        place = aliased.network.kernels[layer.kernel].place
        return PackedWeights(as_fp16(kernel, place), None if biases is None else biases.astype(np.float32), None)
    given, scale = aliased.scales[layer.inputs[0].value], aliased.scales[layer.output.value]
    kernel, biases = kernel.astype(np.float64), None if biases is None else biases.astype(np.float64)
    scales = layer.weights.scales
    if scales is None:
        scales = np.abs(kernel).reshape(len(kernel), -1).max(axis=1) / LARGEST
        if biases is not None:
            scales = np.maximum(scales, np.abs(biases) / given / _LARGEST_BIAS)
        scales = np.where(scales > 0, scales, 1.0)
    scales = np.broadcast_to(scales, len(kernel)).astype(np.float64)
    numbers = np.clip(rounded(kernel / scales[:, None, None, None]), -LARGEST - 1, LARGEST).astype(np.int8)
    if biases is not None:
        limit = float(np.iinfo(np.int32).max)
        biases = np.clip(rounded(biases / (given * scales)), -limit, limit).astype(np.int32)
    return PackedWeights(numbers, biases, (given * scales / scale).astype(np.float32))


def weights_bytes(aliased: AliasedNetwork, element_type: TensorType, ddr: DdrMap) -> bytes:
    """Return the weights of a binary.

    Raises:
        MlipCompileError: fp16 cannot hold a constant.
    """
    network = aliased.network
    blob = np.zeros(ddr.weights_bytes, np.uint8)
    blocks: dict[int, list[tuple[ConstantsBlock, int]]] = {}
    for block, offset in ddr.blocks.items():
        blocks.setdefault(block.layer, []).append((block, offset))
    for number, own in blocks.items():
        layer = network.layers[number]
        numbers = pack(layer, aliased, element_type)
        for block, offset in own:
            layout = constants_layout(layer, block.stop - block.start, element_type)
            kernel = numbers.kernel[block.start : block.stop]
            if layer.task is TaskKind.DEPTHWISE:
                kernel = kernel[..., 0].transpose(1, 2, 0)
            _put(blob, offset, kernel)
            if numbers.biases is not None:
                _put(blob, offset + layout.biases, numbers.biases[block.start : block.stop])
            if numbers.factors is not None:
                _put(blob, offset + layout.factors, numbers.factors[block.start : block.stop])
    for root, offset in ddr.operands.items():
        constant = network.values[root].constant
        assert constant is not None
        if element_type is TensorType.FP16:
            _put(blob, offset, as_fp16(constant, root))
        else:
            limited = np.clip(rounded(constant / aliased.scales[root]), -LARGEST - 1, LARGEST)
            _put(blob, offset, limited.astype(np.int8))
    return blob.tobytes()


def as_fp16(array: Array, place: str) -> Array:
    """Return real numbers as fp16; raise MlipCompileError if some are too large for it."""
    largest = float(np.abs(array).max(initial=0.0))
    with np.errstate(over="ignore"):
        result = array.astype(np.float16)
    if not np.isfinite(result).all():
        raise MlipCompileError(
            f"{place}: a constant is {largest}, expected at most {np.finfo(np.float16).max} for fp16"
        )
    return result


def rounded(array: Array) -> Array:
    """Return whole numbers; halves go away from zero."""
    result: Array = np.trunc(array + np.copysign(0.5, array))
    return result


def _put(blob: Bytes, offset: int, array: Array) -> None:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    blob[offset : offset + len(data)] = data
