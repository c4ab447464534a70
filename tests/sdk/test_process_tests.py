"""The tests of one process, with the device in C++ in the place of cpu_ref: what they ask of a device, it does too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnhal.endpoint import Endpoint
from tests.sdk.conftest import ROOT

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(900)]  # the first one builds the SDK

FILES = {
    "absent_fields": "",
    "burst": "",
    "fenced": "unknown_dimensions or puts_its_fence_into_error",
    "launch_channel": "a_few_bytes_each_way",
    "link_abuse": "silent_links",
    "run_channel": "",
    "wired_chain": "a_step_that_cannot_be_a_stage",
}
"""Files of tests/process, each with an expression for the tests that ask for what this device does not have.

It takes no tensors of unknown dimensions, and no models that fail. One test of links waits for ten seconds.
"""


@pytest.mark.parametrize("name", FILES)
def test_the_device_passes(name: str, foreign: Endpoint) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--cpu-ref={foreign.directory}"]
    command += [f"tests/process/test_{name}.py"]
    if FILES[name]:
        command += ["-k", f"not ({FILES[name]})"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:]
