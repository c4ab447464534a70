"""Content of a day's ring: nothing is lost of a peak, and a slow rate is what it is."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_dashboard.monitoring.ring import MOST_SERIES, SAMPLES, SPREAD_SECONDS, TIERS, Ring, RingSample, steady

BEGIN = 1_800_000_000.0
RATE = {"requests/": ()}


def filled(values: list[float], series: str = "busy/npu", step: float = 1.0) -> Ring:
    """Return a ring with values of one series, a second apart."""
    ring = Ring(RATE)
    for number, value in enumerate(values):
        ring.add(RingSample(BEGIN + step * (number + 1), step, {series: value}, [1]))
    return ring


def test_the_last_minutes_are_kept_by_the_second() -> None:
    ring = filled([float(number) for number in range(60)])
    found = ring.stretches("busy/npu", BEGIN + 60, 60, 1)
    assert found.mean.tolist() == list(range(60))
    assert found.end[0] == BEGIN + 1 and found.end[-1] == BEGIN + 60


@pytest.mark.parametrize("offset", [0.3, 4.0, 9.9, 119.0])
def test_the_first_seconds_are_seen_at_once(offset: float) -> None:
    ring = Ring()
    for second in range(3):
        ring.add(RingSample(BEGIN + offset + second, 1.0, {"busy/npu": 7.0}, [1]))
        for step in (1, 5, 20, 360):
            assert ring.stretches("busy/npu", BEGIN + offset + second, 86400, step).mean[-1] == 7
            assert ring.counts(BEGIN + offset + second, 86400, step)[1].sum() == second + 1


@pytest.mark.parametrize(("seconds", "step"), [(900, 5), (3600, 20), (86400, 360)])
def test_a_peak_of_one_second_is_seen_in_every_range(seconds: int, step: int) -> None:
    values = [1.0] * 2400
    values[100] = 70.0
    shown = filled(values).stretches("busy/npu", BEGIN + (900 if seconds == 900 else 2400), seconds, step)
    assert np.nanmax(shown.high) == 70 if seconds > 900 else True
    assert np.nanmin(shown.low) == 1
    if seconds > 900:
        peak = int(np.nanargmax(shown.high))
        assert shown.end[peak] - step < BEGIN + 101 <= shown.end[peak]
        assert 1 < shown.mean[peak] < 10


def test_a_stretch_has_the_same_values_however_long_ago_it_is() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 9, 3000).astype(float).tolist()
    ring = filled(values[:400])
    early = ring.stretches("busy/npu", BEGIN + 360, 360, 120)
    for number, value in enumerate(values[400:], 400):
        ring.add(RingSample(BEGIN + number + 1, 1.0, {"busy/npu": value}))
    late = ring.stretches("busy/npu", BEGIN + 360, 360, 120)
    for one, other in zip(early, late, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def test_durations_are_counted_once_in_every_range() -> None:
    ring = filled([1.0] * 3000)
    for seconds, step in ((3000, 1), (3000, 10), (3000, 120)):
        ends, counts = ring.counts(BEGIN + 3000, seconds, step)
        assert len(ends) == len(counts) == seconds // step
        assert counts.sum() == 3000
        if step > 1:
            assert set(counts[:, 0].tolist()) == {step}


def test_after_a_day_the_oldest_is_forgotten() -> None:
    tier = TIERS[-1]
    ring = Ring()
    for number in range(tier.most + 50):
        ring.add(RingSample(BEGIN + number * tier.seconds, 1.0, {"busy/npu": float(number)}))
    shown = ring.stretches("busy/npu", BEGIN + (tier.most + 50) * tier.seconds, 2 * 86400, tier.seconds)
    known = shown.mean[~np.isnan(shown.mean)]
    assert tier.most - 2 <= len(known) <= tier.most + SAMPLES
    assert known[-1] == tier.most + 49


def test_nothing_is_known_of_a_time_in_which_nobody_asked() -> None:
    ring = filled([5.0] * 30)
    for number in range(600, 640):
        ring.add(RingSample(BEGIN + number, 1.0, {"busy/npu": 5.0}))
    shown = ring.stretches("busy/npu", BEGIN + 640, 640, 10)
    assert np.isnan(shown.mean[4:58]).all()
    assert not np.isnan(shown.mean[:3]).any() and not np.isnan(shown.mean[60:]).any()


def test_a_sample_that_took_longer_stands_for_all_its_time() -> None:
    shown = filled([3.0] * 20, step=2.5).stretches("busy/npu", BEGIN + 50, 50, 1)
    assert shown.mean.tolist() == [3.0] * 50


@pytest.mark.parametrize("every", [2, 5, 7, 60, 250])
def test_a_rate_under_one_a_sample_is_shown_as_it_is(every: int) -> None:
    values = [float(number % every == 0) for number in range(1000)]
    shown = filled(values, "requests/").stretches("requests/", BEGIN + 1000, 900, 5)
    inner = shown.mean[60:120]
    assert inner == pytest.approx(np.full(60, 1 / every), rel=1e-6)
    assert shown.high[60:120] == pytest.approx(inner, rel=1e-6)


def test_a_rate_that_stopped_goes_down_to_nothing() -> None:
    values = [float(number % 5 == 0) for number in range(101)]
    soon = filled(values + [0.0] * 20, "requests/").stretches("requests/", BEGIN + 120, 10, 1)
    assert 0 < soon.mean[-1] <= 1 / 20
    later = filled(values + [0.0] * (int(SPREAD_SECONDS) + 10), "requests/")
    assert later.stretches("requests/", BEGIN + 400, 200, 1).mean.tolist() == [0.0] * 200


def test_a_burst_keeps_its_peak() -> None:
    values = [0.0] * 50 + [1.0] + [0.0] * 20 + [40.0] + [0.0] * 30
    shown = filled(values, "requests/").stretches("requests/", BEGIN + len(values), len(values), 1)
    assert shown.mean[71] == 40
    assert shown.mean[60] == 0


def test_one_request_alone_is_at_its_instant() -> None:
    shown = filled([0.0] * 50 + [1.0] + [0.0] * 9, "requests/").stretches("requests/", BEGIN + 60, 60, 1)
    assert shown.mean.tolist() == [0.0] * 50 + [1.0] + [0.0] * 9


def test_bytes_and_executions_of_one_request_belong_to_it() -> None:
    at, seconds = np.arange(1.0, 101.0), np.ones(100)
    requests = (np.arange(100) % 10 == 0).astype(float)
    late = np.roll(requests, 1)  # a device is asked at another instant than the framework
    found = steady(at, seconds, late * 3000, [requests])
    assert found[20:80] == pytest.approx(np.full(60, 300.0))
    assert steady(at, seconds, late * 3000, [requests * 8])[21] == 3000


def test_the_sum_of_a_steadied_rate_is_that_of_its_counts() -> None:
    rng = np.random.default_rng(8)
    counts = rng.poisson(0.4, 800).astype(float)
    counts[0], counts[-1] = 1.0, 1.0
    assert steady(np.arange(800.0), np.ones(800), counts).sum() == pytest.approx(counts.sum())


def test_a_clock_that_was_set_back_a_little_costs_these_samples() -> None:
    ring = filled([1.0] * 10)
    ring.add(RingSample(BEGIN + 5, 1.0, {"busy/npu": 9.0}))
    assert ring.stretches("busy/npu", BEGIN + 10, 10, 1).mean.tolist() == [1.0] * 10


@pytest.mark.slow
def test_of_too_many_series_the_oldest_is_forgotten() -> None:
    ring = Ring()
    for number in range(MOST_SERIES + 3):
        ring.add(RingSample(BEGIN + number, 1.0, {f"busy/{number}": 1.0, "busy/stays": 1.0}))
    assert len(ring.columns) == MOST_SERIES
    assert "busy/stays" in ring.columns and "busy/0" not in ring.columns
    assert ring.names("busy/")[-1] == str(MOST_SERIES + 2)
