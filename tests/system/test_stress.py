"""``nnhal stress``: devices that keep the contract, and one that breaks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnhal.endpoint import Endpoint
from nnhal.operations import OperationContext
from nnhal.types import OperationType
from nnhal_devices.cpu_ref import interpreter
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.cpu_ref.kernels import KERNELS
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from tests.support.command import nnhal


def run(device: str, seconds: int, report: Path) -> tuple[int, str, dict[str, Any]]:
    """The command's exit status, output and report."""
    done = nnhal("stress", device, "--seconds", str(seconds), "--sessions", "4", "--seed", "1", "--json", str(report))
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "seconds"), [("cpu_ref", 15), ("cpu_acc", 8), ("ethos_u", 8), ("mlip", 8)])
def test_devices_answer_as_the_contract_says_whatever_happens(driver: str, seconds: int, tmp_path: Path) -> None:
    status, said, report = run(driver, seconds, tmp_path / "report.json")
    assert (status, report["violations"], report["leftovers"]) == (0, [], []), said
    assert report["succeeded"] > 1 / 3
    assert sum(report["sessions"].values()) >= 4


@pytest.mark.slow
def test_a_device_that_computes_wrongly_is_found(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relu = KERNELS[OperationType.RELU]

    def wrong(op: OperationContext) -> tuple[Any, ...]:
        (result,) = relu(op)
        return (result + 1,)

    monkeypatch.setattr(interpreter, "KERNELS", {**KERNELS, OperationType.RELU: wrong})
    with host(CpuRef(), Endpoint(short_path), DeviceSettings()):
        status, said, report = run(str(short_path), 8, tmp_path / "report.json")
        for _ in range(7):  # on a busy machine a session may end before it checks a result
            if status == 0:
                status, said, report = run(str(short_path), 8, tmp_path / "report.json")
    assert status == 1
    assert any("wrong output" in violation["text"] for violation in report["violations"])
    assert "violation: session seed" in said
