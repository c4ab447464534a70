"""``nnhal drill``: no request is lost, whatever happens to devices and to the wire between hosts."""

from __future__ import annotations

import json

import pytest

from tests.support.command import nnhal

pytestmark = pytest.mark.slow


def test_no_request_is_lost_when_devices_die_and_a_wire_is_cut() -> None:
    done = nnhal("drill", "kill", "partition", "--json", timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    killed, cut = json.loads(done.stdout)
    assert (killed["act"], cut["act"]) == ("kill", "partition")
    for report in (killed, cut):
        assert (report["lost"], report["wrong"], report["trouble"]) == (0, 0, "")
        assert report["answered"] >= 60


def test_no_request_is_lost_when_all_devices_die_at_once_beside_clients_that_misbehave() -> None:
    done = nnhal("drill", "blackout", "abuse", "--clients", "2", "--times", "2", "--json", timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    reports = json.loads(done.stdout)
    assert [report["act"] for report in reports] == ["blackout", "abuse"] * 2
    for report in reports:
        assert (report["lost"], report["wrong"], report["trouble"]) == (0, 0, "")
        assert 0 < report["median_ms"] <= report["slowest_ms"]


def test_an_act_that_is_not_known_is_refused() -> None:
    done = nnhal("drill", "flood")
    assert done.returncode == 2
    assert "flood, expected some of kill, blackout, hang" in done.stderr
