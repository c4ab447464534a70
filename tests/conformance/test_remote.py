"""Conformance vectors on a device at the other end of a TCP connection. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import cycle, product
from pathlib import Path

from nnhal.remote import RemoteDevice
from nnhal_tools.cases.case import ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.far_devices import far_device, near_device

pytestmark = NEEDS_VECTORS
MEMORIES = [MemoryChoice.ASHMEM, MemoryChoice.TOKEN]


def test_every_operation_is_right_in_some_mode() -> None:
    vectors = {code: vector for (code, *_), vector in smallest_by_form().items()}
    verdicts: Counter[Verdict] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as path,
        far_device(Path(path)) as far,
        near_device(Path(path), far) as near,
        RemoteDevice(near.endpoint) as device,
    ):
        runners = cycle([CaseRunner(device, [way]) for way in product(ExecutionMode, MEMORIES)])
        for vector, runner in zip(vectors.values(), runners, strict=False):
            (result,) = runner.run(vector)
            assert result.verdict != Verdict.FAILED, f"{vector.name}: {result.reason}"
            verdicts[result.verdict] += 1
    assert verdicts[Verdict.PASSED] > 90, verdicts
