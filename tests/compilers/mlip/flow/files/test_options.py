from __future__ import annotations

import pytest

from nnhal_mlip.flow.files.options import MlipTargetOptions, parse_options


def test_nothing_given_has_the_defaults() -> None:
    assert parse_options() == MlipTargetOptions("mlip", "fp16", False, 8, "sim", "cn10ka")


def test_tiles_alone() -> None:
    assert parse_options(num_tiles=4) == MlipTargetOptions(num_tiles=4)


@pytest.mark.parametrize(
    "mattr",
    [
        "wb_pin_ocm=1,quantize=int8,num_tiles=2",
        "-wb_pin_ocm=1 -quantize=int8 -num_tiles=2",
        "--wb_pin_ocm=1, --quantize=int8 ,num_tiles=2",
        " -num_tiles=2,-quantize=int8,  wb_pin_ocm=1 -arch=MLIP ",
        "num_tiles=2,num_tiles=2,quantize=int8,wb_pin_ocm=1",
    ],
)
def test_both_spellings_say_the_same(mattr: str) -> None:
    assert parse_options(mattr) == MlipTargetOptions(quantize="int8", wb_pin_ocm=True, num_tiles=2)


def test_float16_is_another_word_for_fp16() -> None:
    assert parse_options("-quantize=float16").quantize == "fp16"


@pytest.mark.parametrize(
    ("mattr", "mode"), [("hw", "hw"), ("sim", "sim"), ("-quantize=fp16 hw", "hw"), ("hw,sim", "sim")]
)
def test_words_set_the_mode_and_sim_wins(mattr: str, mode: str) -> None:
    assert parse_options(mattr).mode == mode


@pytest.mark.parametrize(
    ("mattr", "message"),
    [
        ("simd", "got option 'simd', expected one of arch, quantize, wb_pin_ocm, num_tiles, sim, hw"),
        ("-working=/hw/sim", "got option '-working=/hw/sim', expected one of"),
        ("ocm_size=1", "got option 'ocm_size=1'"),
        ("num_tiles=3", "option num_tiles: got '3', expected one of 1, 2, 4, 8"),
        ("num_tiles=08", "got '08'"),
        ("num_tiles", "option num_tiles: got no value, expected num_tiles=1|2|4|8"),
        ("num_tiles 4", "option num_tiles: got no value"),
        ("num_tiles=4,num_tiles=8", "option num_tiles: got 4 and 8"),
        ("quantize=int4", "got 'int4', expected one of fp16, float16, int8"),
        ("wb_pin_ocm=yes", "option wb_pin_ocm: got 'yes'"),
        ("arch=m1k", "option arch: got 'm1k'"),
        ("-", "got option '-'"),
        ("=4", "got option '=4'"),
    ],
)
def test_what_is_not_known_is_refused_with_the_known(mattr: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_options(mattr)
    assert message in str(error.value)


def test_two_numbers_of_tiles_are_refused() -> None:
    assert parse_options("-num_tiles=4", num_tiles=4).num_tiles == 4
    with pytest.raises(ValueError, match="option num_tiles: got 4 and 2"):
        parse_options("-num_tiles=4", num_tiles=2)


@pytest.mark.parametrize("tiles", [0, 3, 16, True])
def test_a_number_of_tiles_that_no_part_has_is_refused(tiles: int) -> None:
    with pytest.raises(ValueError, match="expected one of 1, 2, 4, 8"):
        parse_options(num_tiles=tiles)


def test_parts() -> None:
    assert parse_options(mcpu="cnf10kb").mcpu == "cnf10kb"
    with pytest.raises(ValueError, match="option mcpu: got 'cn9', expected one of cn10ka, cnf10kb"):
        parse_options(mcpu="cn9")
