"""Operations on images with an input that says whether channels come first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.layout_graph import Behaviour, Converts, Keeps
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.operations.convolution import TRANSPOSE_CONV_2D_FORMS, TransposeConv2dImplicit
from nnhal.operations.layout_rules import OnImages, int32
from nnhal.operations.windows import Forms
from nnhal.types import OperationType
from nnhal.types.orders import TO_LAST, permuted


def image_behaviour(op: OperationContext, images: OnImages) -> Behaviour:
    """Return how an operation on images behaves.

    It converts if it is known to have channels first. One with channels last stays as it is.
    """
    try:
        if not op.boolean(_layout(op, images)):
            return Keeps(known=bool(images.outputs))
        channels_last_parameters(op)
    except UnknownYet:
        return Keeps()
    return Converts(dict.fromkeys(images.inputs, TO_LAST), dict.fromkeys(images.outputs, TO_LAST))


def channels_last_parameters(op: OperationContext) -> Mapping[int, Array]:
    """Return the parameters that change if images with channels first become such with channels last, by position.

    Filters are the same for both. Raises UnknownYet if the size of an output is no constant.
    """
    images = DEFINITIONS[op.type].layout
    if not isinstance(images, OnImages):
        raise TypeError(f"{op.place} is not an operation on images")
    parameters = {_layout(op, images): np.array(False, np.uint8)}
    if op.type == OperationType.TRANSPOSE_CONV_2D and TRANSPOSE_CONV_2D_FORMS.of(op) is TransposeConv2dImplicit:
        shape = TransposeConv2dImplicit.OUTPUT_SHAPE
        parameters[shape] = int32(list(permuted(op.integers(shape), TO_LAST)))
    return parameters


def _layout(op: OperationContext, images: OnImages) -> int:
    return images.layout.of(op)["LAYOUT"] if isinstance(images.layout, Forms) else images.layout
