"""``nnhal conformance`` with all vectors against real device processes. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.support.command import nnhal

_FOLDER = os.environ.get("NNHAL_CONFORMANCE", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _FOLDER, reason="NNHAL_CONFORMANCE names no folder of vectors"),
]
_SOME = "^(conv_quant8|lstm|while|concat|roi_align|pad)"
"""Vectors for every special kind of operands and outputs: per channel, omitted, dynamic, several outputs."""


def verdicts(path: Path, *arguments: str) -> Counter[str]:
    """Return how many tests had each verdict; a failure shows what failed."""
    result = path / "results.json"
    done = nnhal("conformance", _FOLDER, "--json", str(result), *arguments, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return Counter(test["verdict"] for test in json.loads(result.read_text()))


def test_cpu_ref_passes_every_vector(tmp_path: Path) -> None:
    counts = verdicts(tmp_path, "--device", "cpu_ref")
    assert set(counts) == {"passed"}


@pytest.mark.parametrize(
    ("driver", "least_share"),
    [("cpu_acc", 0.6), ("gpu_acc", 0.35), ("ethos_n", 0.03), ("ethos_u", 0.06), ("mlip", 0.05)],
)
def test_a_device_fails_no_vector_and_does_not_decline_too_many(
    tmp_path: Path, driver: str, least_share: float
) -> None:
    counts = verdicts(tmp_path, "--device", driver)
    assert counts["failed"] == 0
    assert counts["passed"] >= least_share * sum(counts.values())


@pytest.mark.contract("EX-01", "EX-05", "EX-10", "EX-12", "EX-14", "EX-17")
@pytest.mark.parametrize("memory", ["ashmem", "mmap_fd", "hardware_buffer_blob", "token"])
def test_every_mode_and_memory_kind_gives_the_same_results(tmp_path: Path, memory: str) -> None:
    modes = ("sync", "burst", "reusable", "fenced")
    chosen = [argument for mode in modes for argument in ("--mode", mode)]
    counts = verdicts(tmp_path, "--device", "cpu_ref", *chosen, "--memory", memory, "--filter", _SOME)
    assert set(counts) == {"passed"}
    assert counts["passed"] > 300 * len(modes)
