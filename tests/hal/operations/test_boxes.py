from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, Q16A, Q16S, scalar_float
from nnhal.operations.boxes import box_type
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

AXIS_ALIGNED_BBOX_TRANSFORM_CODE = OperationType.AXIS_ALIGNED_BBOX_TRANSFORM


def inputs_axis_aligned_bbox_transform(
    boxes: OperandType, deltas: OperandType, rois: Dimensions, scale: float = 0.125
) -> list[Given]:
    eighths = scale if boxes == Q16A else 0.0
    return [
        open_tensor(boxes, rois, eighths),
        open_tensor(deltas, (5, 8), 0.05 if boxes == Q16A else 0.0),
        open_tensor(I32, (5,)),
        open_tensor(boxes, (2, 2), eighths),
    ]


def test_there_is_a_box_for_each_region_and_class() -> None:
    assert dimensions_of(
        AXIS_ALIGNED_BBOX_TRANSFORM_CODE, inputs_axis_aligned_bbox_transform(F32, F32, (0, 4)), output(F32, (0, 8))
    ) == ((5, 8),)


@pytest.mark.parametrize(("boxes", "deltas", "level"), [(F16, F16, 3), (F32, F32, 3), (Q16A, Q8A, 3), (Q16A, Q8AS, 4)])
def test_quantised_boxes_have_deltas_of_either_quant8_type(boxes: OperandType, deltas: OperandType, level: int) -> None:
    assert (
        level_of(
            AXIS_ALIGNED_BBOX_TRANSFORM_CODE,
            inputs_axis_aligned_bbox_transform(boxes, deltas, (5, 4)),
            output(boxes, (5, 8), 0.125),
        )
        == level
    )


@pytest.mark.parametrize(("boxes", "deltas"), [(F32, F16), (Q16A, F32), (Q8A, Q8A)])
def test_other_types_are_refused(boxes: OperandType, deltas: OperandType) -> None:
    with pytest.raises(HalError, match="expected"):
        level_of(
            AXIS_ALIGNED_BBOX_TRANSFORM_CODE,
            inputs_axis_aligned_bbox_transform(boxes, deltas, (5, 4)),
            output(boxes, (5, 8)),
        )


def test_quantised_boxes_count_eighths() -> None:
    with pytest.raises(HalError, match=r"scale 0.25 .* expected 0.125"):
        dimensions_of(
            AXIS_ALIGNED_BBOX_TRANSFORM_CODE,
            inputs_axis_aligned_bbox_transform(Q16A, Q8A, (5, 4), scale=0.25),
            output(Q16A, (5, 8), 0.125),
        )


@pytest.mark.parametrize("rois", [(4, 4), (5, 3)])
def test_operands_agree_on_the_number_of_regions(rois: Dimensions) -> None:
    with pytest.raises(HalError, match="expected equal numbers"):
        dimensions_of(AXIS_ALIGNED_BBOX_TRANSFORM_CODE, inputs_axis_aligned_bbox_transform(F32, F32, rois), output(F32))


BOX_WITH_NMS_LIMIT_CODE = OperationType.BOX_WITH_NMS_LIMIT


def inputs_box_with_nms_limit(
    main: OperandType, *, kernel: int = 0, sigma: float = 0.5, classes: int = 3
) -> list[Given]:
    quantized = main in (Q8A, Q8AS)
    real = scalar_float(main)
    return [
        open_tensor(main, (0, classes), 0.01 * quantized),
        open_tensor(box_type(main), (0, 12), 0.125 * quantized),
        open_tensor(I32, (0,)),
        scalar(real, 0.3),
        *integers(-1, kernel),
        scalar(real, 0.4),
        scalar(real, sigma),
        scalar(real, 0.3),
    ]


def outputs_box_with_nms_limit(main: OperandType) -> list[Operand]:
    quantized = main in (Q8A, Q8AS)
    return [
        output(main, (0,), 0.01 * quantized),
        output(box_type(main), (0, 4), 0.125 * quantized),
        output(I32, (0,)),
        output(I32, (0,)),
    ]


def test_how_many_boxes_are_left_is_not_known_before_execution() -> None:
    assert dimensions_of(BOX_WITH_NMS_LIMIT_CODE, inputs_box_with_nms_limit(F32), *outputs_box_with_nms_limit(F32)) == (
        (0,),
        (0, 4),
        (0,),
        (0,),
    )


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_box_with_nms_limit_types(main: OperandType, level: int) -> None:
    assert (
        level_of(BOX_WITH_NMS_LIMIT_CODE, inputs_box_with_nms_limit(main), *outputs_box_with_nms_limit(main)) == level
    )


def test_parameters_of_float16_scores_are_float16() -> None:
    given = inputs_box_with_nms_limit(F16)
    given[7] = scalar(OperandType.FLOAT32, 0.5)
    with pytest.raises(HalError, match=r"input 7 \(sigma\) is FLOAT32, expected FLOAT16"):
        level_of(BOX_WITH_NMS_LIMIT_CODE, given, *outputs_box_with_nms_limit(F16))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": 3}, "kernel 3"),
        ({"kernel": 2, "sigma": 0.0}, "sigma is 0"),
        ({"classes": 4}, "expected equal numbers"),
    ],
)
def test_box_with_nms_limit_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(
            BOX_WITH_NMS_LIMIT_CODE, inputs_box_with_nms_limit(F32, **parameters), *outputs_box_with_nms_limit(F32)
        )


def test_scores_keep_their_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.02 .* expected 0.01"):
        dimensions_of(
            BOX_WITH_NMS_LIMIT_CODE,
            inputs_box_with_nms_limit(Q8A),
            output(Q8A, (0,), 0.02),
            *outputs_box_with_nms_limit(Q8A)[1:],
        )


DETECTION_POSTPROCESSING_CODE = OperationType.DETECTION_POSTPROCESSING


def inputs_detection_postprocessing(
    main: OperandType, *, classes: int = 3, encoding: int = 4, scale: float = 10, most: tuple[int, int, int] = (3, 1, 1)
) -> list[Given]:
    real = scalar_float(main)
    return [
        open_tensor(main, (2, 6, classes)),
        open_tensor(main, (0, 6, encoding)),
        open_tensor(main, (0, 4)),
        *(scalar(real, scale) for _ in range(4)),
        boolean(False),
        *integers(*most),
        scalar(real, 0),
        scalar(real, 0.5),
        boolean(False),
    ]


def outputs_detection_postprocessing(main: OperandType) -> list[Operand]:
    return [output(main, (2, 3)), output(main, (2, 3, 4)), output(I32, (2, 3)), output(I32, (2,))]


@pytest.mark.parametrize("main", [F16, F32])
def test_there_is_room_for_all_detections(main: OperandType) -> None:
    assert (
        level_of(
            DETECTION_POSTPROCESSING_CODE,
            inputs_detection_postprocessing(main),
            *outputs_detection_postprocessing(main),
        )
        == 3
    )
    assert dimensions_of(
        DETECTION_POSTPROCESSING_CODE,
        inputs_detection_postprocessing(main, encoding=7),
        *outputs_detection_postprocessing(main),
    ) == ((2, 3), (2, 3, 4), (2, 3), (2,))


def test_quantised_scores_are_refused() -> None:
    with pytest.raises(HalError, match="TENSOR_QUANT8_ASYMM"):
        level_of(
            DETECTION_POSTPROCESSING_CODE, inputs_detection_postprocessing(Q8A), *outputs_detection_postprocessing(Q8A)
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"encoding": 3}, "encoding is 3"),
        ({"classes": 1}, "background is 1"),
        ({"scale": 0}, "scale_y is 0"),
        ({"most": (0, 1, 1)}, "max_detections is 0"),
        ({"most": (3, 0, 1)}, "max_classes_per_detection is 0"),
    ],
)
def test_detection_postprocessing_parameters_that_mean_nothing_are_refused(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(
            DETECTION_POSTPROCESSING_CODE,
            inputs_detection_postprocessing(F32, **parameters),
            *outputs_detection_postprocessing(F32),
        )


GENERATE_PROPOSALS_CODE = OperationType.GENERATE_PROPOSALS


def inputs_generate_proposals(
    main: OperandType, *, anchors: int = 2, ratio: float = 4, channels_first: bool = False
) -> list[Given]:
    quantized, real = main in (Q8A, Q8AS), scalar_float(main)
    return [
        open_tensor(main, (1, 3, 5, 2), 0.01 * quantized),
        open_tensor(main, (0, 3, 5, 8), 0.05 * quantized),
        open_tensor(Q16S if quantized else main, (anchors, 4), 0.125 * quantized),
        open_tensor(box_type(main), (1, 2), 0.125 * quantized),
        scalar(real, ratio),
        scalar(real, ratio),
        *integers(-1, -1),
        scalar(real, 0.3),
        scalar(real, 1),
        boolean(channels_first),
    ]


def outputs_generate_proposals(main: OperandType) -> list[Operand]:
    quantized = main in (Q8A, Q8AS)
    return [
        output(main, (0,), 0.01 * quantized),
        output(box_type(main), (0, 4), 0.125 * quantized),
        output(I32, (0,)),
    ]


def test_how_many_proposals_are_left_is_not_known_before_execution() -> None:
    assert dimensions_of(GENERATE_PROPOSALS_CODE, inputs_generate_proposals(F32), *outputs_generate_proposals(F32)) == (
        (0,),
        (0, 4),
        (0,),
    )


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_generate_proposals_types(main: OperandType, level: int) -> None:
    assert (
        level_of(GENERATE_PROPOSALS_CODE, inputs_generate_proposals(main), *outputs_generate_proposals(main)) == level
    )


def test_quantised_anchors_are_signed_as_they_may_lie_outside_the_image() -> None:
    given = inputs_generate_proposals(Q8A)
    given[2] = open_tensor(Q16A, (2, 4), 0.125)
    with pytest.raises(HalError, match=r"input 2 \(anchors\) is TENSOR_QUANT16_ASYMM, expected TENSOR_QUANT16_SYMM"):
        level_of(GENERATE_PROPOSALS_CODE, given, *outputs_generate_proposals(Q8A))


@pytest.mark.parametrize("parameters", [{"anchors": 3}, {"channels_first": True}, {"ratio": 0}])
def test_operands_that_do_not_go_together_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(
            GENERATE_PROPOSALS_CODE, inputs_generate_proposals(F32, **parameters), *outputs_generate_proposals(F32)
        )
