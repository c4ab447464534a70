"""Findings about drivers and backend files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_tools.doctor.devices import check_devices, findings
from nnhal_tools.doctor.finding import Status


def test_what_an_inventory_says() -> None:
    inventory = {
        "drivers": [
            {"name": "cpu_acc", "version": "1", "problem": None},
            {"name": "cpu_ref", "version": None, "problem": "ImportError: numpy"},
            {"name": "mine", "version": None, "problem": "OSError: no board"},
        ],
        "searched": ["/opt/backends"],
        "refused": [{"path": "/opt/backends/acme_x_backend.py", "reason": "it has no BACKEND_ID"}],
    }
    found = list(findings(inventory))
    assert [(f.check, f.status) for f in found] == [
        ("driver cpu_acc", Status.OK),
        ("driver cpu_ref", Status.FAIL),
        ("driver mine", Status.WARN),
        ("dynamic backends", Status.OK),
        ("backend /opt/backends/acme_x_backend.py", Status.WARN),
    ]
    assert found[3].message == "looked for in /opt/backends"


@pytest.mark.slow
def test_a_refused_backend_file_is_named_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_broken_backend.py").write_text("print('hello')\n")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", f"{tmp_path}:{tmp_path / 'none'}")
    found = {finding.check: finding for finding in check_devices()}
    broken = found[f"backend {tmp_path / 'acme_broken_backend.py'}"]
    assert broken.status is Status.WARN and "BACKEND_ID" in broken.message
    assert found[f"backend {tmp_path / 'none'}"].status is Status.WARN
    assert str(tmp_path) in found["dynamic backends"].message
    assert found["driver cpu_ref"].status is Status.OK


@pytest.mark.slow
def test_an_inventory_that_cannot_be_made_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_WORKERS", "many")
    (finding,) = check_devices()
    assert finding.status is Status.FAIL and "workers" in finding.message
