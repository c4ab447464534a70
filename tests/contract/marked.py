"""Collecting through pytest which tests name which rows."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.table import ContractError

TESTS = Path(__file__).parents[1]

_PROJECT = TESTS.parent
_NEVER_PASSES = ("skip", "xfail")


@dataclass(frozen=True)
class Mark:
    """A test that names a row.

    ``shows`` is False for a test that is always skipped or expected to fail, which names a row but does not show it. A
    test that is skipped only if something is missing (skipif) shows its rows.
    """

    row: str
    test: str
    shows: bool


def collect(tests: Path = TESTS) -> list[Mark]:
    """Return the marks of all tests in a folder, on functions, modules and parameters, without running a test.

    Raises ContractError if a file cannot be collected, or if a mark does not name rows.
    """
    collector = _Collector()
    # Use the project's settings for every folder: the import mode and the registered marks.
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
    options += ["-c", str(_PROJECT / "pyproject.toml"), "--rootdir", str(_PROJECT)]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = pytest.main([*options, str(tests)], plugins=[collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ContractError(f"pytest cannot collect {tests}:\n{said.getvalue().strip()}")
    return marks_of(collector.items)


def marks_of(items: Iterable[pytest.Item]) -> list[Mark]:
    """Return the marks of collected tests. Raises ContractError if a mark does not name rows."""
    marks = []
    for item in items:
        shows = not any(item.get_closest_marker(name) for name in _NEVER_PASSES)
        marks += [Mark(row, item.nodeid, shows) for row in sorted(_rows(item))]
    return marks


def _rows(item: pytest.Item) -> set[str]:
    rows: set[str] = set()
    for mark in item.iter_markers("contract"):
        if not mark.args or mark.kwargs or not all(isinstance(row, str) for row in mark.args):
            raise ContractError(
                f"{item.nodeid}: got contract{mark.args}, expected ids of rows, as in contract('BU-03')"
            )
        rows.update(mark.args)
    return rows


class _Collector:
    """A plugin that keeps the tests which pytest has collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items
