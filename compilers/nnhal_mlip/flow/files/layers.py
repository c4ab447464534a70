"""The kinds of layers in a nodes file, each with the attributes that it has beside those of all.

The names are TVM 0.19's, apart from those in ``EXTENDED_LAYERS``, which the public flow does not have.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Tag

from nnhal_mlip.flow.files.kernel_attributes import ConstantObject, KernelAttributes
from nnhal_mlip.flow.files.scalars import Flag, Integer, Integers, Real, Word, schema_of_words

CONV2D = "Conv2D"
FULLY_CONNECTED = "FC"
MAX_POOL = "Maxpool2D"
AVERAGE_POOL = "Avgpool2D"
GLOBAL_AVERAGE_POOL = "GlobalAvgpool2D"
GLOBAL_MAX_POOL = "GlobalMaxpool2D"
SUM = "Sum2D"
CONCAT = "Concat"
RESHAPE = "reshape"
BATCH_FLATTEN = "nn.batch_flatten"
SQUEEZE = "squeeze"
LAYOUT_TRANSFORM = "layout_transform"
TRANSPOSE = "transpose"
ACTIVATION = "Activation"
"""relu, clip or a function of a table alone."""
PAD = "Pad"
"""A pad alone."""
MEAN = "Mean2D"
"""A mean over height and width."""
PRODUCT = "Product2D"
"""A product of two operands, with the attributes of a sum."""
CONV2D_TRANSPOSE = "Conv2DTranspose"
"""With the attributes of a convolution; its windows do not overlap."""
SLICE = "strided_slice"
UPSAMPLING = "Upsampling2D"
SOFTMAX = "Softmax"
LAYER_NORM = "LayerNorm"
MATMUL = "MatMul"
"""Products of matrices that are both computed."""
EXTENDED_LAYERS = (
    *(ACTIVATION, PAD, MEAN, PRODUCT, CONV2D_TRANSPOSE, SLICE, UPSAMPLING),
    *(SOFTMAX, LAYER_NORM, MATMUL),
)


class Conv2DAttributes(KernelAttributes):
    """A convolution with its bias or batch normalisation; depthwise if ``groups`` are the input's channels."""

    layer_name: Annotated[Word, schema_of_words(CONV2D, CONV2D_TRANSPOSE)]
    strides: Integers
    padding: Integers
    """Top, left, bottom, right. Pads before the convolution are included."""
    dilation: Integers
    groups: Integer
    channels: Integer
    kernel_size: Integers
    kernel_layout: Word
    """OHWI"""
    out_dtype: Word = ""
    kernel_const_name: Word
    bias_const_name: Word | None = None
    bias_layout: Word | None = None
    """---O"""
    axis: Integer | None = None
    """This and all below are those of a batch normalisation."""
    epsilon: Real | None = None
    center: Flag | None = None
    scale: Flag | None = None
    gamma_const_name: Word | None = None
    beta_const_name: Word | None = None
    mean_const_name: Word | None = None
    var_const_name: Word | None = None
    gamma_layout: Word | None = None
    beta_layout: Word | None = None
    mean_layout: Word | None = None
    var_layout: Word | None = None


class FullyConnectedAttributes(KernelAttributes):
    """A dense layer with its bias. All axes of the data but the last are batch."""

    layer_name: Annotated[Word, schema_of_words(FULLY_CONNECTED)]
    units: Integer
    out_dtype: Word = ""
    weights_need_transform: Word | None = None
    """``yes`` if the data is an image in NHWC, and the inputs of the weights are in the order channel, row, column."""
    kernel_layout: Word
    """OI"""
    kernel_const_name: Word
    bias_const_name: Word | None = None
    bias_layout: Word | None = None
    """-O"""


class PoolAttributes(KernelAttributes):
    """A pool with a window."""

    layer_name: Annotated[Word, schema_of_words(MAX_POOL, AVERAGE_POOL)]
    pool_size: Integers
    strides: Integers
    dilation: Integers
    padding: Integers
    """Top, left, bottom, right. Pads before the pool are included."""
    ceil_mode: Flag
    count_include_pad: Flag | None = None
    """Only of average pools."""
    layout: Word
    kernel_layout: Word
    kernel_layout_shape: Integers


class GlobalPoolAttributes(KernelAttributes):
    """A pool over height and width."""

    layer_name: Annotated[Word, schema_of_words(GLOBAL_AVERAGE_POOL, GLOBAL_MAX_POOL)]
    layout: Word
    kernel_layout: Word
    kernel_layout_shape: Integers


class SumAttributes(KernelAttributes):
    """A sum or product of two operands. One of them may be a constant."""

    layer_name: Annotated[Word, schema_of_words(SUM, PRODUCT)]
    input_const_name: Word | None = None
    input_const_shape: Integers | None = None
    """The constant's shape with ones in front up to the operands' rank, then with ones behind up to 4."""
    input_const: ConstantObject | None = None


class ConcatAttributes(KernelAttributes):
    """A concatenation."""

    layer_name: Annotated[Word, schema_of_words(CONCAT)]
    axis: Integer


class CommonAttributes(KernelAttributes):
    """A layer without attributes of its own: reshape, nn.batch_flatten, squeeze, Activation."""

    layer_name: Annotated[Word, schema_of_words(RESHAPE, BATCH_FLATTEN, SQUEEZE, ACTIVATION)]


class LayoutTransformAttributes(KernelAttributes):
    """Axes in the order of another layout."""

    layer_name: Annotated[Word, schema_of_words(LAYOUT_TRANSFORM)]
    src_layout: Word
    dst_layout: Word


class TransposeAttributes(KernelAttributes):
    """Axes in another order."""

    layer_name: Annotated[Word, schema_of_words(TRANSPOSE)]
    axes: Integers


class PadAttributes(KernelAttributes):
    """A pad with a constant."""

    layer_name: Annotated[Word, schema_of_words(PAD)]
    pad_width: Integers
    """Before and after each axis, flat."""
    pad_value: Real


class MeanAttributes(KernelAttributes):
    """A mean over height and width, in any layout."""

    layer_name: Annotated[Word, schema_of_words(MEAN)]
    axis: Integers
    keepdims: Flag


class SliceAttributes(KernelAttributes):
    """Some elements along an axis."""

    layer_name: Annotated[Word, schema_of_words(SLICE)]
    axis: Integer
    begin: Integer
    end: Integer
    """Behind the last."""


class UpsamplingAttributes(KernelAttributes):
    """Each pixel several times."""

    layer_name: Annotated[Word, schema_of_words(UPSAMPLING)]
    scale_h: Integer
    scale_w: Integer
    layout: Word


class SoftmaxAttributes(KernelAttributes):
    """exp(x), divided by the sum of these along an axis."""

    layer_name: Annotated[Word, schema_of_words(SOFTMAX)]
    axis: Integer


class LayerNormAttributes(KernelAttributes):
    """Numbers less their mean along an axis, by the root of their variance and epsilon."""

    layer_name: Annotated[Word, schema_of_words(LAYER_NORM)]
    axis: Integer
    epsilon: Real


class MatmulAttributes(KernelAttributes):
    """Products of the matrices in the last two axes of two operands."""

    layer_name: Annotated[Word, schema_of_words(MATMUL)]
    transpose_a: Flag
    transpose_b: Flag


_KINDS: dict[str, type[KernelAttributes]] = {
    CONV2D: Conv2DAttributes,
    FULLY_CONNECTED: FullyConnectedAttributes,
    MAX_POOL: PoolAttributes,
    AVERAGE_POOL: PoolAttributes,
    GLOBAL_AVERAGE_POOL: GlobalPoolAttributes,
    GLOBAL_MAX_POOL: GlobalPoolAttributes,
    SUM: SumAttributes,
    CONCAT: ConcatAttributes,
    RESHAPE: CommonAttributes,
    BATCH_FLATTEN: CommonAttributes,
    SQUEEZE: CommonAttributes,
    ACTIVATION: CommonAttributes,
    LAYOUT_TRANSFORM: LayoutTransformAttributes,
    TRANSPOSE: TransposeAttributes,
    PAD: PadAttributes,
    MEAN: MeanAttributes,
    PRODUCT: SumAttributes,
    CONV2D_TRANSPOSE: Conv2DAttributes,
    SLICE: SliceAttributes,
    UPSAMPLING: UpsamplingAttributes,
    SOFTMAX: SoftmaxAttributes,
    LAYER_NORM: LayerNormAttributes,
    MATMUL: MatmulAttributes,
}
LAYER_NAMES = tuple(_KINDS)


def _kind(given: Any) -> str:
    if isinstance(given, KernelAttributes):
        return type(given).__name__
    name = given.get("layer_name") if isinstance(given, dict) else None
    if isinstance(name, list) and len(name) == 1 and isinstance(name[0], str) and name[0] in _KINDS:
        return _KINDS[name[0]].__name__
    raise ValueError(f"layer_name is {name!r}, expected a list of one of {', '.join(LAYER_NAMES)}")


LayerAttributes: TypeAlias = Annotated[
    Annotated[Conv2DAttributes, Tag("Conv2DAttributes")]
    | Annotated[FullyConnectedAttributes, Tag("FullyConnectedAttributes")]
    | Annotated[PoolAttributes, Tag("PoolAttributes")]
    | Annotated[GlobalPoolAttributes, Tag("GlobalPoolAttributes")]
    | Annotated[SumAttributes, Tag("SumAttributes")]
    | Annotated[ConcatAttributes, Tag("ConcatAttributes")]
    | Annotated[CommonAttributes, Tag("CommonAttributes")]
    | Annotated[LayoutTransformAttributes, Tag("LayoutTransformAttributes")]
    | Annotated[TransposeAttributes, Tag("TransposeAttributes")]
    | Annotated[PadAttributes, Tag("PadAttributes")]
    | Annotated[MeanAttributes, Tag("MeanAttributes")]
    | Annotated[SliceAttributes, Tag("SliceAttributes")]
    | Annotated[UpsamplingAttributes, Tag("UpsamplingAttributes")]
    | Annotated[SoftmaxAttributes, Tag("SoftmaxAttributes")]
    | Annotated[LayerNormAttributes, Tag("LayerNormAttributes")]
    | Annotated[MatmulAttributes, Tag("MatmulAttributes")],
    Discriminator(_kind),
]
"""The attributes of a kernel, by its ``layer_name``."""
