"""Threats: the tests that they name are there, and the fuzzer has their targets."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.targets import NAMES
from tests.reference.threats import read_threats

ROOT = Path(__file__).parents[1]
THREATS, FUZZED = read_threats()


def test_the_tests_that_threats_name_are_there() -> None:
    named = {test for threat in THREATS for test in threat.tests}
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_each_threat_names_a_test() -> None:
    assert [threat.tries for threat in THREATS if not threat.tests] == []


def test_the_targets_of_the_fuzzer_are_named_once() -> None:
    assert sorted(name for each in FUZZED for name in each.targets) == sorted(NAMES)
