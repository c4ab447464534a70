"""Reports as text."""

from __future__ import annotations

from nnhal_tools.diff.report import DiffReport
from nnhal_tools.diff.text import verdict


def test_a_comparison_of_nothing_does_not_say_that_all_agree() -> None:
    assert verdict(DiffReport("m", "litert", "cpu_acc", 1, (), {}, ())).startswith("nothing was compared")
