"""Models that come and go within a host's memory."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fleet.balancers import BalancingPolicy
from benchmarks.fleet.placement import PlacementPolicy, placed
from benchmarks.fleet.simulation import LoadedModels, simulate
from benchmarks.fleet.traces import RequestTrace, made_trace, zipf_shares
from tests.benchmarks.fleet.hosts import host


def _size(model: int) -> int:
    return 1


def test_the_least_recently_used_model_makes_room() -> None:
    loaded = LoadedModels(3, _size, [0, 1, 2])
    assert loaded.use(0)
    loaded.release(0)
    assert loaded.make_room(3)
    loaded.add(3)
    assert not loaded.use(1)
    assert all(loaded.use(model) for model in (0, 2, 3))
    assert loaded.free_bytes == 0


def test_a_model_in_use_stays() -> None:
    loaded = LoadedModels(2, _size, [0, 1])
    assert loaded.use(0) and loaded.use(1)
    assert not loaded.make_room(2)
    loaded.release(1)
    assert loaded.make_room(2)
    assert loaded.use(0) and not loaded.use(1)


def test_more_than_fits_cannot_be_loaded_to_begin_with() -> None:
    with pytest.raises(ValueError, match="models of 3 bytes on a host that has 2"):
        LoadedModels(2, _size, [0, 1, 2])


def test_requests_for_a_model_that_is_not_loaded_wait_for_it_and_delay_no_others() -> None:
    figures = host(0.001, memory_bytes=1, workers=4)
    shares = np.array([0.9, 0.1])
    # Model 0 is loaded. Model 1 is asked for at 1 s, when nothing is in use, and loading takes a second.
    trace = RequestTrace(np.array([0.5, 1.0, 1.5]), np.array([0, 1, 1]), shares)
    found = simulate(trace, figures, placed(PlacementPolicy.HASHED, 1, shares, figures), BalancingPolicy.ROUND_ROBIN)
    np.testing.assert_allclose(found.latencies, [0.001, 1.001, 0.501])
    assert found.loads == 1


def test_two_models_that_do_not_fit_together_take_turns_and_every_request_is_answered() -> None:
    figures = host(0.01, memory_bytes=1, workers=2)
    trace = made_trace(2.0, 400, zipf_shares(5, 1.0), np.random.default_rng(6))
    placement = placed(PlacementPolicy.COPIES, 2, trace.shares, figures, 2)
    found = simulate(trace, figures, placement, BalancingPolicy.LEAST)
    assert found.refused == 0 and found.loads > 50
    assert np.isfinite(found.latencies).all()
