"""Requests that are made or read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.fleet.traces import Bursts, TraceError, made_trace, read_trace, zipf_shares


def test_the_popularity_of_models_follows_zipfs_law() -> None:
    shares = zipf_shares(1000, 1.0)
    assert float(shares.sum()) == pytest.approx(1)
    assert float(shares[0] / shares[9]) == pytest.approx(10)
    trace = made_trace(1.0, 200_000, shares, np.random.default_rng(1))
    counts = np.bincount(trace.models, minlength=1000)
    assert len(counts) == 1000
    np.testing.assert_allclose(counts[:20] / 200_000, shares[:20], rtol=0.1)


def test_requests_at_random_come_at_the_rate_with_exponential_distances() -> None:
    trace = made_trace(500.0, 100_000, zipf_shares(1, 1), np.random.default_rng(2))
    distances = np.diff(trace.instants)
    assert trace.rate == pytest.approx(500, rel=0.02)
    assert float(distances.std() / distances.mean()) == pytest.approx(1, rel=0.03)


def test_requests_in_bursts_come_at_the_same_rate_and_more_unevenly() -> None:
    one = zipf_shares(1, 1)
    trace = made_trace(500.0, 500_000, one, np.random.default_rng(3), Bursts(factor=8))
    assert trace.rate == pytest.approx(500, rel=0.1)
    counts = np.bincount(trace.instants.astype(int))[:-1]
    # With independent arrivals the variance of the counts is their mean.
    assert float(counts.var() / counts.mean()) > 20
    assert (np.diff(trace.instants) >= 0).all()


def test_the_same_seed_makes_the_same_requests() -> None:
    one, other = (made_trace(9.0, 100, zipf_shares(5, 1), np.random.default_rng(4), Bursts()) for _ in range(2))
    np.testing.assert_array_equal(one.instants, other.instants)
    np.testing.assert_array_equal(one.models, other.models)


def test_a_trace_is_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("seconds,model\n0.5,b\n1.25,a\n2,b\n2,b\n")
    read = read_trace(file)
    assert read.instants.tolist() == [0.5, 1.25, 2, 2]
    assert read.models.tolist() == [0, 1, 0, 0]
    assert read.shares.tolist() == [0.75, 0.25]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,model\n1,a\n", "columns"),
        ("seconds,model\n1,a\nsoon,a\n", "line 3"),
        ("seconds,model\n2,a\n1,a\n", "ascending"),
        ("seconds,model\n-1,a\n1,a\n", "from 0 s on"),
        ("seconds,model\n", "got 0 requests"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_the_reason(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(TraceError, match=words):
        read_trace(file)
