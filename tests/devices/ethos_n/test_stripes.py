from __future__ import annotations

from dataclasses import replace

from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.stripes import Stripes, cut, smallest

# 3 x 3 with stride 2 on 32 rows of 100 bytes, to 16 rows of 64 channels of 20 bytes.
CONVOLUTION = Geometry(16, 64, 20, 32, 100, reach=3, step=2, weight_bytes=40, by_channel=False)


def test_a_stripe_is_its_input_its_weights_and_itself() -> None:
    assert CONVOLUTION.stripe_bytes(1, 64) == 3 * 100 + 64 * 40 + 64 * 20
    assert CONVOLUTION.stripe_bytes(4, 32) == 9 * 100 + 32 * 40 + 4 * 32 * 20


def test_no_more_input_is_taken_than_there_is() -> None:
    assert CONVOLUTION.stripe_bytes(16, 16) == 32 * 100 + 16 * 40 + 16 * 16 * 20


def test_channels_that_stand_alone_take_their_own_input() -> None:
    pooling = Geometry(16, 64, 20, 32, 6400, reach=2, step=2)
    assert pooling.stripe_bytes(4, 16) == 8 * 6400 // 4 + 4 * 16 * 20


def test_an_output_that_grows_takes_fewer_rows() -> None:
    twice = Geometry(32, 64, 20, 16, 6400, reach=2, growth=2)
    assert twice.stripe_bytes(1, 64) == 2 * 6400 + 64 * 20
    assert twice.stripe_bytes(8, 64) == 6 * 6400 + 8 * 64 * 20


def test_what_fits_is_one_stripe() -> None:
    whole = CONVOLUTION.stripe_bytes(16, 64)
    assert cut(CONVOLUTION, whole) == Stripes(16, 64, whole, 1)


def test_a_byte_less_makes_more_stripes() -> None:
    stripes = cut(CONVOLUTION, CONVOLUTION.stripe_bytes(16, 64) - 1)
    assert stripes == Stripes(15, 64, CONVOLUTION.stripe_bytes(15, 64), 2)


def test_channels_are_divided_where_weights_are_large() -> None:
    heavy = replace(CONVOLUTION, weight_bytes=4000)
    stripes = cut(heavy, 150_000)
    assert stripes == Stripes(16, 32, heavy.stripe_bytes(16, 32), 2)


def test_what_does_not_fit_at_all() -> None:
    least = smallest(CONVOLUTION)
    assert (least.rows, least.channels, least.bytes) == (1, 16, 300 + 16 * 60)
    assert cut(CONVOLUTION, least.bytes) == least
    assert cut(CONVOLUTION, least.bytes - 1) is None
