"""The simulation against the formulas of queueing theory."""

from __future__ import annotations

from math import factorial, log

import numpy as np
import pytest

from tests.benchmarks.fleet.hosts import exponential, host, poisson, simulated


def waiting_share(workers: int, load: float) -> float:
    """Return Erlang's C: the share of the requests that have to wait, for a load in workers."""
    last = load**workers / factorial(workers) * workers / (workers - load)
    return last / (sum(load**k / factorial(k) for k in range(workers)) + last)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_worker_with_exponential_times_is_an_mm1_queue(load: float) -> None:
    found = simulated(poisson(load), host(*exponential()))
    assert float(found.latencies.mean()) == pytest.approx(1 / (1 - load), rel=0.05)
    for percent in (50, 90, 99):
        assert found.percentile(percent) == pytest.approx(-log(1 - percent / 100) / (1 - load), rel=0.08)


@pytest.mark.parametrize(("workers", "load"), [(2, 1.6), (8, 6.4)])
def test_several_workers_with_exponential_times_are_an_mmc_queue(workers: int, load: float) -> None:
    found = simulated(poisson(load), host(*exponential(), workers=workers))
    expected = waiting_share(workers, load) / (workers - load)
    assert float(found.latencies.mean()) - 1 == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_worker_with_equal_times_is_an_md1_queue(load: float) -> None:
    found = simulated(poisson(load), host(1.0))
    assert float(found.latencies.mean()) - 1 == pytest.approx(load / (2 * (1 - load)), rel=0.05)


def test_a_front_is_a_queue_too_and_its_workers_share_it() -> None:
    one = simulated(poisson(0.8), host(1e-9, front_seconds=1.0, workers=64))
    assert float(one.latencies.mean()) == pytest.approx(1 + 0.8 / (2 * 0.2), rel=0.05)
    two = simulated(poisson(0.8), host(1e-9, front_seconds=1.0, workers=64, fronts=2))
    assert 1 < float(two.latencies.mean()) < 1.2


def test_as_many_requests_are_under_way_as_littles_law_says() -> None:
    trace = poisson(0.8)
    found = simulated(trace, host(*exponential()))
    # An arrival of a Poisson process finds what is there on average, so that its count is a measurement of its own.
    assert float(found.found.mean()) == pytest.approx(trace.rate * float(found.latencies.mean()), rel=0.03)


def test_every_request_is_answered_once_and_no_work_is_lost_or_invented() -> None:
    trace = poisson(3.0, 20_000)
    figures = host(0.5, 1.5, workers=2, way=0.25)
    found = simulated(trace, figures, hosts=2)
    assert found.refused == 0 and len(found.latencies) == 20_000
    assert found.latencies.min() == pytest.approx(0.75)
    assert float(found.busy_seconds.sum()) == pytest.approx(20_000, rel=0.02)
    end = float((trace.instants + found.latencies).max())
    assert (found.busy_seconds <= 2 * end).all()


def test_a_full_host_refuses_and_what_it_takes_it_answers() -> None:
    found = simulated(poisson(4.0, 20_000), host(1.0, most_requests=3))
    taken = found.latencies[np.isfinite(found.latencies)]
    assert found.refused + len(taken) == 20_000
    assert 0.7 < found.refused / 20_000 < 0.8  # one worker can take a quarter
    assert float(taken.max()) <= 3 + 1e-9 and int(found.found.max()) == 3
    assert found.percentile(99) == np.inf
