"""The fixture of pytest, as a user's tests have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faulty import faulty_device

pytestmark = pytest.mark.slow
TESTS = """
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice

DIRECTORY = Path({directory!r})


def version():
    with RemoteDevice(Endpoint(DIRECTORY)) as device:
        return device.version()


def test_a_device_fails_on_purpose(device_faults):
    faults = device_faults(DIRECTORY)
    faults.set({{"what": "error", "method": "Device.GetVersionString", "name": "it"}})
    with pytest.raises(HalError, match="injected fault 'it'"):
        version()
    assert faults.injected() == 1


def test_it_is_well_in_the_next_test():
    assert version()
"""


def test_devices_are_well_again_after_a_test(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "conftest.py").write_text('pytest_plugins = ["nnhal_client.pytest_faults"]\n')
    with faulty_device(tmp_path) as device:
        (suite / "test_own.py").write_text(TESTS.format(directory=str(device.endpoint.directory)))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(suite), str(suite)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, "2 passed" in ended.stdout) == (0, True), ended.stdout
        assert device.control.faults() == []
