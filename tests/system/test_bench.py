"""``nnhal bench``: its rows. The times themselves are not tested."""

from __future__ import annotations

import json
from itertools import permutations

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
    assert report["direct_over_floor"] > 0
    assert set(report["p50_ns"]) == {"ping-pong, 64 bytes", "in process", "direct run", "burst", "gRPC"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--measured",)], ids=["direct", "measured"])
def test_a_model_is_measured_in_one_to_eight_steps(options: tuple[str, ...]) -> None:
    done = nnhal("bench", "chain", "--rounds", "10", "--json", *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ping_pong_ns"] > 0
    assert [cut["steps"] for cut in report["cuts"]] == list(range(1, 9))
    for cut in report["cuts"]:
        assert cut["own_ns"] > 0 and cut["run_ns"] > 0, cut


def test_a_value_is_passed_between_every_two_devices_without_a_copy_or_with_one() -> None:
    done = nnhal("bench", "fallback", "--rounds", "3", "--sizes", "4,64", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    pairs = set(permutations(("GPU", "NPU", "CPU"), 2))
    sizes = (4096, 65536)
    assert {(e["source"], e["destination"], e["bytes"]) for e in report["edges"]} == {
        (*pair, size) for pair in pairs for size in sizes
    }
    for edge in report["edges"]:
        imported, copied = edge["imported"], edge["copied"]
        assert (imported["staged_bytes"], imported["staging_ns"]) == (0, 0)
        assert copied["staged_bytes"] == edge["bytes"]
        assert 0 < copied["staging_ns"] <= copied["edge_ns"]
        assert imported["memory"] == (
            "hardware_buffer_blob" if "NPU" in (edge["source"], edge["destination"]) else "ashmem"
        )
        assert (copied["memory"], copied["offset"]) == (
            "ashmem",
            0 if "NPU" in (edge["source"], edge["destination"]) else 64,
        )
    assert {(pair["source"], pair["destination"]) for pair in report["pairs"]} == pairs
    alignment = report["alignment"]
    assert alignment["steps"] == ["gpu_acc", "ethos_n", "gpu_acc", "ethos_n", "cpu_acc"]
    assert alignment["values"] == 12
    assert 0 < alignment["unaligned_bytes"] < alignment["aligned_bytes"]


@pytest.mark.parametrize("sizes", ["3", "131072", "", "4,x"])
def test_sizes_that_no_image_can_have_are_refused(sizes: str) -> None:
    done = nnhal("bench", "fallback", "--sizes", sizes)
    assert done.returncode == 1
    assert "expected powers of two" in done.stderr
