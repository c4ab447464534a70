"""Artifacts of ethos_u: another process reads what one has written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WRITTEN = """
from nnhal_cascade.stream.commands import DIGEST_BYTES, CommandStream
from nnhal_devices.ethos_u.artifact import write_artifact
from nnhal_devices.ethos_u.options import read_options
system = read_options({}).system
print(repr([region.holds for region in system.regions]))
print(write_artifact(CommandStream((), bytes(DIGEST_BYTES), ()), system, 1 << 20, 1 << 10).hex())
"""


@pytest.mark.slow
def test_an_artifact_does_not_depend_on_the_order_of_sets_in_a_process() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", WRITTEN],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        for seed in range(4)
    ]
    assert len({order for order, _ in found}) > 1, "the seeds are to give sets different orders"
    assert len({artifact for _, artifact in found}) == 1
