from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, scalar_float
from nnhal.operations.boxes import box_type
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

ROI_ALIGN_CODE = OperationType.ROI_ALIGN


def inputs_roi_align(
    main: OperandType,
    *,
    regions: int = 7,
    size: tuple[int, int] = (2, 3),
    ratio: float = 4,
    samples: int = 0,
    channels_first: bool = False,
) -> list[Given]:
    quantized, real = main in (Q8A, Q8AS), scalar_float(main)
    return [
        open_tensor(main, (1, 8, 9, 5), 0.1 * quantized),
        open_tensor(box_type(main), (regions, 4), 0.125 * quantized),
        open_tensor(I32, (7,)),
        *integers(*size),
        scalar(real, ratio),
        scalar(real, ratio),
        *integers(samples, samples),
        boolean(channels_first),
    ]


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_roi_align_types(main: OperandType, level: int) -> None:
    assert (
        level_of(ROI_ALIGN_CODE, inputs_roi_align(main), output(main, (7, 2, 3, 5), 0.2 * (main in (Q8A, Q8AS))))
        == level
    )


def test_roi_align_every_region_becomes_a_feature_map_of_one_size() -> None:
    assert dimensions_of(ROI_ALIGN_CODE, inputs_roi_align(F32, regions=0), output(F32)) == ((7, 2, 3, 5),)
    assert dimensions_of(ROI_ALIGN_CODE, inputs_roi_align(F32, channels_first=True), output(F32)) == ((7, 8, 2, 3),)


@pytest.mark.parametrize("parameters", [{"regions": 6}, {"size": (0, 3)}, {"ratio": 0}, {"samples": -1}])
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(ROI_ALIGN_CODE, inputs_roi_align(F32, **parameters), output(F32))


def test_regions_of_unknown_rank_leave_the_answer_open() -> None:
    given = inputs_roi_align(F32)
    given[1] = open_tensor(F32, ())
    with pytest.raises(UnknownYet):
        dimensions_of(ROI_ALIGN_CODE, given, output(F32))


ROI_POOLING_CODE = OperationType.ROI_POOLING


def inputs_roi_pooling(main: OperandType, channels_first: bool = False) -> list[Given]:
    quantized, real = main in (Q8A, Q8AS), scalar_float(main)
    return [
        open_tensor(main, (1, 8, 9, 5), 0.1 * quantized),
        open_tensor(box_type(main), (7, 4), 0.125 * quantized),
        open_tensor(I32, (0,)),
        *integers(2, 3),
        scalar(real, 4),
        scalar(real, 2),
        boolean(channels_first),
    ]


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_roi_pooling_types(main: OperandType, level: int) -> None:
    assert (
        level_of(ROI_POOLING_CODE, inputs_roi_pooling(main), output(main, (7, 2, 3, 5), 0.1 * (main in (Q8A, Q8AS))))
        == level
    )


def test_roi_pooling_every_region_becomes_a_feature_map_of_one_size() -> None:
    assert dimensions_of(ROI_POOLING_CODE, inputs_roi_pooling(F32), output(F32)) == ((7, 2, 3, 5),)
    assert dimensions_of(ROI_POOLING_CODE, inputs_roi_pooling(F32, channels_first=True), output(F32)) == ((7, 8, 2, 3),)


def test_features_keep_their_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.2 .* expected 0.1"):
        dimensions_of(ROI_POOLING_CODE, inputs_roi_pooling(Q8A), output(Q8A, scale=0.2))


HEATMAP_MAX_KEYPOINT_CODE = OperationType.HEATMAP_MAX_KEYPOINT


def inputs_heatmap_max_keypoint(main: OperandType, heatmaps: Dimensions, channels_first: bool = False) -> list[Given]:
    quantized = main in (Q8A, Q8AS)
    return [
        open_tensor(main, heatmaps, 0.01 * quantized),
        open_tensor(box_type(main), (6, 4), 0.125 * quantized),
        boolean(channels_first),
    ]


def outputs(main: OperandType) -> list[Operand]:
    quantized = main in (Q8A, Q8AS)
    return [output(main, (6, 17), 0.5 * quantized), output(box_type(main), (6, 17, 2), 0.125 * quantized)]


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_heatmap_max_keypoint_types(main: OperandType, level: int) -> None:
    assert (
        level_of(HEATMAP_MAX_KEYPOINT_CODE, inputs_heatmap_max_keypoint(main, (6, 4, 4, 17)), *outputs(main)) == level
    )


@pytest.mark.parametrize(
    ("heatmaps", "channels_first"), [((0, 4, 4, 17), False), ((6, 0, 0, 17), False), ((6, 17, 4, 0), True)]
)
def test_there_is_a_point_for_each_box_and_keypoint(heatmaps: Dimensions, channels_first: bool) -> None:
    assert dimensions_of(
        HEATMAP_MAX_KEYPOINT_CODE, inputs_heatmap_max_keypoint(F32, heatmaps, channels_first), *outputs(F32)
    ) == ((6, 17), (6, 17, 2))


@pytest.mark.parametrize("heatmaps", [(6, 4, 5, 17), (6, 1, 1, 17), (5, 4, 4, 17)])
def test_heatmaps_are_squares_of_at_least_two_cells_one_for_each_box(heatmaps: Dimensions) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(HEATMAP_MAX_KEYPOINT_CODE, inputs_heatmap_max_keypoint(F32, heatmaps), *outputs(F32))
