from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nnhal_service.grpc_core import configure_grpc

NAME = "GRPC_EXPERIMENTS"


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "mine")
    configure_grpc()
    assert os.environ[NAME] == "mine"


def test_it_is_set_before_grpc_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    program = "import nnhal_service.__main__, sys; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"
    configure_grpc()
    assert os.environ[NAME] == "-event_engine_listener"
