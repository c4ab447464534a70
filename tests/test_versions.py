"""All distributions have one version."""

from __future__ import annotations

import re
import tomllib

from tests.test_documentation import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


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
