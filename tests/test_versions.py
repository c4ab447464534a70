"""The page of versions says what the code has, and all distributions have one version."""

from __future__ import annotations

import re
import tomllib

import pytest

from nnhal.link.client import PROTOCOL_VERSION
from nnhal.recording.file_form import VERSION as RECORDING_VERSION
from nnhal_cascade.stream.binary import VERSION as STREAM_VERSION
from nnhal_dashboard.monitoring.history_file import FORM
from nnhal_devices import wire
from nnhal_devices.driver import BACKEND_API_VERSION
from nnhal_devices.dynamic.loader import C_API_VERSION
from nnhal_hosting.faults.document import VERSION as FAULTS_VERSION
from nnhal_tools.up.topology import VERSION as TOPOLOGY_VERSION
from tests.test_documentation import ROOT

PAGE = (ROOT / "docs/versions.md").read_text()
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if row.startswith("| ")}
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(
    ("what", "version"),
    [
        ("link, between processes of one host", f"`PROTOCOL_VERSION` {PROTOCOL_VERSION}"),
        ("wire, between hosts", f"`PROTOCOL_VERSION` {wire.PROTOCOL_VERSION}"),
        ("driver interface and backend files", f"`BACKEND_API_VERSION` {'.'.join(map(str, BACKEND_API_VERSION))}"),
        ("backends in C", f"`C_API_VERSION` {'.'.join(map(str, C_API_VERSION))}"),
        ("recordings of devices (`.nnrec`)", f"| {RECORDING_VERSION}, "),
        ("what cpu_acc, ethos_u and mlip keep in entries", f"or {STREAM_VERSION} for command streams"),
        ("the dashboard's history (NNHAL_DASHBOARD_HISTORY)", f"`FORM` {FORM}"),
        ("topologies", f"| {TOPOLOGY_VERSION}, "),
        ("files of faults", f"| {FAULTS_VERSION}, "),
    ],
)
def test_the_page_has_the_version_of_the_code(what: str, version: str) -> None:
    assert version in ROWS[what]


def test_each_distribution_and_each_driver_has_the_version() -> None:
    other = [ROOT / "native/pyproject.toml", ROOT / "frontends/ort_ep/pyproject.toml"]
    assert {tomllib.loads(path.read_text())["project"]["version"] for path in other} == {VERSION}
    pinned = re.findall(r'"nnhal-\w+==([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert set(pinned) == {VERSION}
    drivers = list((ROOT / "devices/nnhal_devices").glob("*/driver.py"))
    named = {path.parent.name: re.findall(r'"nnhal-[\w{}.]+-(\d+\.\d+\.\d+)', path.read_text()) for path in drivers}
    assert {name: versions for name, versions in named.items() if versions not in ([VERSION], [])} == {}
    of_others = {name for name, versions in named.items() if not versions}
    assert of_others == {"remote"}  # which has that of the far device


def test_the_changelog_has_what_comes_and_the_last_version() -> None:
    sections = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[:2] == ["Unreleased", VERSION] or sections[0] == VERSION
