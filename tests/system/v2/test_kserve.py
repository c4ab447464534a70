"""KServe's client, unmodified, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.model_server import Served

SCRIPT = Path(__file__).parents[2] / "peers/kserve_client.py"
PYTHON = os.environ.get("NNHAL_KSERVE", "")


@pytest.mark.skipif(not PYTHON, reason="NNHAL_KSERVE names no Python that has kserve; 'make peers' does")
def test_kserve_s_clients_are_served(served: Served) -> None:
    done = subprocess.run(
        [PYTHON, str(SCRIPT), served.http, served.grpc], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
