"""Supervised processes: their admin keys, and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote.admin import DeviceAdmin
from nnhal_hosting.supervision import Child

KEY = "the-key-of-a-testbed"


def test_a_process_gets_the_key_of_its_supervisor(short_path: Path) -> None:
    child = Child("nnhal_devices", ["null", "--endpoint", str(short_path)], admin_key=KEY)
    try:
        child.wait_until_ready()
        with DeviceAdmin(Endpoint(short_path), KEY) as operator:
            assert operator.process().is_whole
    finally:
        assert child.stop(60) == 0


def test_what_metadata_cannot_carry_is_no_key(short_path: Path) -> None:
    with pytest.raises(ValueError, match="an admin key of 25 characters; expected 16 to 256 printable ones"):
        Child("nnhal_devices", ["null", "--endpoint", str(short_path)], admin_key="a key\nof two lines, or so")
