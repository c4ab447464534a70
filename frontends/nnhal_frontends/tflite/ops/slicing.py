"""SLICE, STRIDED_SLICE, GATHER and lookups."""

from __future__ import annotations

from tflite import GatherOptions, LSHProjectionOptions, LSHProjectionType, StridedSliceOptions

from nnhal.types import OperandType, OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.graph import OperatorOptions
from nnhal_frontends.tflite.ops._strides import AxisSlices, SliceSpec, written_out

_BOUNDS = (1, 2, 3)
"""The inputs with begins, ends and strides."""
_LSH_TYPES = {LSHProjectionType.SPARSE: 3, LSHProjectionType.DENSE: 2}


def slice_(b: OperatorBuilder) -> None:
    b.finish(OperationType.SLICE, [b.input(0), b.input(1), b.input(2)])


def strided_slice(b: OperatorBuilder) -> None:
    """STRIDED_SLICE, followed by a RESHAPE for new axes; SLICE and RESHAPE for int32."""
    options = b.options(StridedSliceOptions)
    if any(b.constant(index) is None for index in _BOUNDS):
        _slice_at_run_time(b, options)
        return
    slices, tensor = slices_of(b, len(b.shape(0))), b.input(0)
    if b.operand(tensor).type == OperandType.TENSOR_INT32:
        part = _plain_slice(b, slices)
    elif None not in slices.result:
        b.finish(OperationType.STRIDED_SLICE, [tensor, *_inputs(b, slices, slices.shrink_mask)])
        return
    else:
        part = b.apply(OperationType.STRIDED_SLICE, [tensor, *_inputs(b, slices, 0)])
    lengths = b.ranked(part)
    b.finish_reshape(part, [1 if axis is None else lengths[axis] for axis in slices.result])


def slices_of(b: OperatorBuilder, rank: int) -> AxisSlices:
    """Return the slices of each axis of a STRIDED_SLICE with constant bounds."""
    options = b.options(StridedSliceOptions)
    begins, ends, strides = (b.integers(index, "bounds") for index in _BOUNDS)
    if options.Offset:
        ends = [begin + end for begin, end in zip(begins, ends, strict=False)]
    spec = SliceSpec(
        begins,
        ends,
        strides,
        options.BeginMask,
        options.EndMask,
        options.EllipsisMask,
        options.NewAxisMask,
        options.ShrinkAxisMask,
    )
    try:
        return written_out(spec, rank)
    except ValueError as error:
        raise b.unsupported(str(error)) from error


def _slice_at_run_time(b: OperatorBuilder, options: OperatorOptions) -> None:
    if options.EllipsisMask or options.NewAxisMask or options.Offset:
        raise b.unsupported("an ellipsis, new axes or offsets, and bounds computed at run time", "constant bounds")
    if options.ShrinkAxisMask and (b.constant(2) is not None or options.BeginMask or options.EndMask):
        raise b.unsupported("places computed at run time, whose end the operator does not look at", "their ends too")
    rank = len(b.shape(0))
    if any(b.shape(index) != (rank,) for index in _BOUNDS):
        raise b.unsupported("bounds computed at run time for some axes", f"bounds for all {rank}")
    masks = (options.BeginMask, options.EndMask, options.ShrinkAxisMask)
    b.finish(
        OperationType.STRIDED_SLICE, [b.input(0), *(b.input(i) for i in _BOUNDS), *(b.int32(mask) for mask in masks)]
    )


def _plain_slice(b: OperatorBuilder, slices: AxisSlices) -> int:
    """Add a SLICE of a tensor of integers, which STRIDED_SLICE does not take."""
    if 0 in b.shape(0) or set(slices.strides) != {1}:
        raise b.unsupported("a strided slice of integers", "stride 1 and known shapes")
    taken = slices.ranges(b.shape(0))
    begins, sizes = [part.start for part in taken], [len(part) for part in taken]
    return b.apply(OperationType.SLICE, [b.input(0), b.vector(begins), b.vector(sizes)])


def _inputs(b: OperatorBuilder, slices: AxisSlices, shrink_mask: int) -> list[int]:
    bounds = [b.vector(numbers) for numbers in (slices.begins, slices.ends, slices.strides)]
    return bounds + [b.int32(mask) for mask in (slices.begin_mask, slices.end_mask, shrink_mask)]


def gather(b: OperatorBuilder) -> None:
    """GATHER; a scalar index removes its axis."""
    options = b.options(GatherOptions)
    if options.BatchDims:
        raise b.unsupported(f"{options.BatchDims} batch axes", "0")
    given = b.shape(0)
    axis = b.axis(options.Axis, len(given))
    inputs = [b.input(0), b.int32(axis), b.input(1)]
    if b.tflite_shape(1):
        b.finish(OperationType.GATHER, inputs)
    else:
        b.finish_reshape(b.apply(OperationType.GATHER, inputs), given[:axis] + given[axis + 1 :])


def embedding_lookup(b: OperatorBuilder) -> None:
    """EMBEDDING_LOOKUP. Quantised values are dequantised if the result has floats."""
    values = b.input(1) if b.is_quantized(b.result()) else b.reals(1)
    b.finish(OperationType.EMBEDDING_LOOKUP, [b.input(0), values])


def hashtable_lookup(b: OperatorBuilder) -> None:
    """HASHTABLE_LOOKUP: from lookups, keys and values to the results and the hits."""
    b.add(OperationType.HASHTABLE_LOOKUP, b.inputs(), b.results())


def lsh_projection(b: OperatorBuilder) -> None:
    """LSH_PROJECTION. TFLite's SPARSE is the HAL's newer sparse type, which adds an offset for each hash function."""
    code = b.options(LSHProjectionOptions).Type
    if code not in _LSH_TYPES:
        raise b.unsupported(f"projection type {code}", "SPARSE, DENSE")
    weights = b.input(2) if b.has(2) else b.absent(b.operand(b.input(0)).type)
    b.finish(OperationType.LSH_PROJECTION, [b.input(0), b.input(1), weights, b.int32(_LSH_TYPES[code])])
