"""A core of the conformance vectors, from a client's container against the device in each of the others."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from tests.testbed.bed import DEVICES, DIRECTORY, ContainerBed

pytestmark = [
    pytest.mark.testbed,
    pytest.mark.skipif(not os.environ.get("NNHAL_CONFORMANCE"), reason="NNHAL_CONFORMANCE names no folder of vectors"),
]
VECTORS = "/vectors/v1_0.jsonl.gz"
CORE = "^(add|concat|conv|max_pool|relu|softmax)"
LEAST_SHARE = {"cpu_ref": 1.0, "cpu_acc": 0.6, "gpu_acc": 0.35, "ethos_n": 0.2, "ethos_u": 0.25, "mlip": 0.05}
"""How many of the vectors a device takes, at least."""


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_in_a_container_fails_no_vector(bed: ContainerBed, device: str) -> None:
    modes = ("--mode=sync", "--mode=burst", "--mode=fenced")
    command = ("nnhal", "conformance", VECTORS, "--filter", CORE, *modes, "--device", f"{DIRECTORY}/{device}")
    bed.client.run(*command, "--json", "/tmp/results.json")
    verdicts = Counter(test["verdict"] for test in json.loads(bed.client.run("cat", "/tmp/results.json")))
    assert set(verdicts) <= {"passed", "declined"}
    assert verdicts.total() > 100
    assert verdicts["passed"] >= LEAST_SHARE[device] * verdicts.total()
