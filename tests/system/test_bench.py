"""``nnhal bench``: that every row is there; how fast things are is for people to read."""

from __future__ import annotations

import json

import pytest

from tests.support.command import nnhal


@pytest.mark.slow
def test_every_mode_is_measured_on_both_models() -> None:
    done = nnhal("bench", "modes", "--rounds", "10", "--large-rounds", "3", "--json")
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert len({report["model"] for report in reports}) == 2
    assert len({report["mode"] for report in reports}) == 7
    assert len(reports) == 14
    for report in reports:
        assert 0 < report["compute_ns"] < report["p50_ns"] <= report["p99_ns"], report
        assert 0 < report["overhead"] < 1, report


@pytest.mark.slow
def test_a_hop_is_measured_against_its_floor() -> None:
    done = nnhal("bench", "hop", "--rounds", "10", "--large-rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["burst_over_floor"] > 0
    assert set(report["p50_ns"]) == {"ping-pong, 64 bytes", "in process", "burst", "gRPC"}
