"""Which tests name which rows, as pytest itself collects them."""

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

    ``shows`` is False for a test that is always skipped or is expected to fail: it can be right about the row's id, but
    shows nothing. A test that is skipped only where something is missing (skipif) does show its rows.
    """

    row: str
    test: str
    shows: bool


def collect(tests: Path = TESTS) -> list[Mark]:
    """The marks of all tests in a folder, wherever they stand: on functions, modules or parameters. Runs no test.

    Raises ContractError where a file cannot be collected, or a mark does not name rows.
    """
    collector = _Collector()
    # The project's own settings hold for any folder: how modules are imported, and which marks there are.
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
    options += ["-c", str(_PROJECT / "pyproject.toml"), "--rootdir", str(_PROJECT)]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = pytest.main([*options, str(tests)], plugins=[collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ContractError(f"pytest cannot collect {tests}:\n{said.getvalue().strip()}")
    return marks_of(collector.items)


def marks_of(items: Iterable[pytest.Item]) -> list[Mark]:
    """The marks of collected tests. Raises ContractError where one does not name rows."""
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
    """A plugin that keeps what pytest has collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items
