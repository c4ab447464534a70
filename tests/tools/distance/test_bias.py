from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_tools.distance.bias import bias_of

_GENERATOR = np.random.default_rng(3)
_LEFT, _RIGHT = _GENERATOR.integers(-128, 128, (2, 1, 16, 16, 8)).astype(np.int64)
_ZERO = 5
Rounding = Callable[[Array], Array]


def added(left: Array, right: Array) -> Array:
    """Return real numbers in output steps."""
    return np.asarray(0.61 * (left - 7) + 0.57 * (right + 3))


def multiplied(left: Array, right: Array) -> Array:
    return np.asarray(0.006 * (left - 7) * (right + 3))


def stored(reals: Array, rounding: Rounding = np.rint, most: int = 127) -> Array:
    return np.asarray(np.clip(rounding(reals) + _ZERO, -128, most).astype(np.int8))


def bias(got: Array, wanted: Array) -> str:
    inputs = {"left": _LEFT - 7, "right": _RIGHT + 3}
    found = bias_of(got.astype(np.int64) - wanted, wanted, _ZERO, inputs)
    return found.where if found else ""


def wrong_channel(reals: Array) -> Array:
    changed = reals.copy()
    changed[..., 5] += 0.4
    return changed


PLANTED = {
    "floor": stored(added(_LEFT, _RIGHT), np.floor),
    "ceil": stored(added(_LEFT, _RIGHT), np.ceil),
    "truncation": stored(added(_LEFT, _RIGHT), np.trunc),
    "zero point of the output": stored(added(_LEFT, _RIGHT) + 1),
    "zero point of an input, up": stored(added(_LEFT + 1, _RIGHT)),
    "zero point of an input, down": stored(added(_LEFT, _RIGHT - 1)),
    "scale": stored(1.01 * added(_LEFT, _RIGHT)),
    "shift": stored(added(_LEFT, _RIGHT) / 2),
    "saturation": stored(added(_LEFT, _RIGHT), most=126),
    "one channel": stored(wrong_channel(added(_LEFT, _RIGHT))),
}


@pytest.mark.parametrize("what", list(PLANTED))
def test_a_bias_is_found_whatever_causes_it(what: str) -> None:
    assert bias(PLANTED[what], stored(added(_LEFT, _RIGHT)))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_zero_point_in_a_product_is_found(left: bool, by: int) -> None:
    got = multiplied(_LEFT + by * left, _RIGHT + by * (not left))
    assert bias(stored(got), stored(multiplied(_LEFT, _RIGHT)))


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_other_precision_are_noise(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.05, _LEFT.shape)
    for reals in (added(_LEFT, _RIGHT), multiplied(_LEFT, _RIGHT)):
        assert bias(stored(reals + noise), stored(reals)) == ""


def test_a_constant_channel_that_rounds_otherwise_is_one_case_and_not_many() -> None:
    wanted = stored(added(_LEFT, _RIGHT))
    wanted[..., 2] = 17
    got = wanted.copy()
    got[..., 2] = 16
    assert bias(got, wanted) == ""


def test_few_elements_do_not_tell() -> None:
    wanted = stored(added(_LEFT, _RIGHT))[:, :1, :3]
    got = stored(added(_LEFT, _RIGHT), np.floor)[:, :1, :3]
    assert bias_of(got.astype(np.int64) - wanted, wanted, _ZERO, {}) is None


def test_integers_without_a_scale_have_steps_too() -> None:
    wanted = np.arange(100, dtype=np.int32).reshape(1, 100)
    found = bias_of(np.ones((1, 100), np.int64), wanted, 0, {})
    assert found is not None
    assert (found.mean, str(found)) == (1.0, "bias of +1 steps up, 10.0 standard errors, allowed 5 or .05 steps")


def test_a_channel_that_is_off_is_found_though_most_of_it_is_clamped() -> None:
    wanted = np.tile(np.arange(-50, 50, dtype=np.int8), 4).reshape(1, 400, 1)
    wanted = np.concatenate([wanted, np.full((1, 400, 1), -128, np.int8)], 1)
    wanted = np.concatenate([wanted] * 8, 2)
    steps = np.zeros(wanted.shape, np.int64)
    steps[..., 5] = 1
    assert "up at index 5 of axis 1" in str(bias_of(steps, wanted, 0, {}))


def test_few_elements_tell_if_nearly_all_of_them_are_off() -> None:
    wanted = np.arange(10, dtype=np.int8).reshape(1, 10)
    assert bias_of(np.ones((1, 10), np.int64), wanted, 0, {}) is not None
    assert bias_of(np.ones((1, 10), np.int64), np.zeros((1, 10), np.int8), 0, {}) is None
