"""contract.md: the tests that it names are those that pytest collects."""

from __future__ import annotations

import pytest

from tests.contract.marked import marks_of
from tests.reference.contract import modules_of


def test_the_page_names_the_module_of_each_test_that_names_a_row(request: pytest.FixtureRequest) -> None:
    # The session has the tests that this run has collected: all of them if the whole suite runs.
    named = {(mark.row, mark.test.partition("::")[0]) for mark in marks_of(request.session.items)}
    assert [(row, module) for row, module in sorted(named) if module not in modules_of(row)] == []
