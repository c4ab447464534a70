"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV become the HAL's convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite import Padding

from nnhal.types import ChannelQuant, OperandType
from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import integers, random
from tests.support.onnx_models import input_types
from tests.support.tflite_files import Spec, floats, int8
from tests.support.tflite_operators import Given, one

SCALES = [0.01, 0.02, 0.03, 0.04]
WEIGHTS = (integers(4, 3, 2, 3), int8(4, 3, 2, 3, scale=SCALES))
BIAS: Given = (integers(4, low=-500, high=500), Spec([4], np.int32, [0.05 * scale for scale in SCALES]))


def conv(**more: Any) -> tuple[str, dict[str, Any]]:
    """Options with stride 1."""
    return "Conv2DOptions", {"Padding": Padding.SAME, "StrideW": 1, "StrideH": 1, **more}


def test_a_scale_for_each_channel_is_kept_with_its_axis() -> None:
    node = one("CONV_2D", [int8(1, 5, 6, 3), WEIGHTS, BIAS], int8(1, 5, 6, 4), conv())
    imported = import_tflite(node.file())
    assert input_types(imported, 0)[:3] == [
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        OperandType.TENSOR_INT32,
    ]
    _, kernel, bias = (imported.model.main.operands[i] for i in imported.model.main.operations[0].inputs[:3])
    assert kernel.extra_params == ChannelQuant(tuple(np.array(SCALES, np.float32).tolist()), 0)
    assert bias.scale == 0


def test_the_scale_of_a_bias_is_that_of_the_products_whatever_the_file_says() -> None:
    weights = (integers(4, 3, 2, 3), int8(4, 3, 2, 3, scale=0.02, zero_point=0))
    node = one(
        "CONV_2D", [int8(1, 5, 6, 3), weights, (integers(4), Spec([4], np.int32, 0.5))], int8(1, 5, 6, 4), conv()
    )
    main = import_tflite(node.file()).model.main
    bias = main.operands[main.operations[0].inputs[2]]
    assert bias.scale == np.float32(0.05) * np.float32(0.02)


def test_a_convolution_without_bias_gets_zeros() -> None:
    node = one("CONV_2D", [floats(1, 5, 6, 3), random(4, 3, 2, 3)], floats(1, 5, 6, 4), conv())
    with_zeros = one("CONV_2D", [*node.inputs, np.zeros(4, np.float32)], floats(1, 5, 6, 4), conv())
    assert import_tflite(node.file()).model.main == import_tflite(with_zeros.file()).model.main


def depthwise(multiplier: int) -> tuple[str, dict[str, Any]]:
    """Options with stride 2."""
    return "DepthwiseConv2DOptions", {"Padding": 0, "StrideW": 2, "StrideH": 2, "DepthMultiplier": multiplier}


@pytest.mark.parametrize("stated", [2, 0])
def test_the_depth_multiplier_follows_from_the_filter(stated: int) -> None:
    node = one(
        "DEPTHWISE_CONV_2D", [floats(1, 5, 6, 3), random(1, 3, 2, 6), random(6)], floats(1, 3, 3, 6), depthwise(2)
    )
    assert node.check() == ["DEPTHWISE_CONV_2D"]
    unstated = one("DEPTHWISE_CONV_2D", node.inputs, floats(1, 3, 3, 6), depthwise(stated))
    assert import_tflite(unstated.file()).model.main == import_tflite(node.file()).model.main


def test_a_quantised_depthwise_filter_has_its_channels_last() -> None:
    weights = (integers(1, 3, 2, 4), int8(1, 3, 2, 4, scale=SCALES, axis=3))
    node = one("DEPTHWISE_CONV_2D", [int8(1, 5, 6, 2), weights, BIAS], int8(1, 3, 3, 4, scale=0.07), depthwise(2))
    assert node.check(steps=0) == ["DEPTHWISE_CONV_2D"]
