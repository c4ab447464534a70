"""Progress that ``nnhal diff`` prints while it compares."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from nnhal_tools.cli.diff import told_in_silence


def test_without_a_terminal_a_run_is_told_of_in_a_line_once_nothing_was_told_for_a_time() -> None:
    for silence, expected in ((0.0, "run 1: the model on npu\nrun 2: [layer] on npu\n"), (float("inf"), "")):
        written = StringIO()
        tell = told_in_silence(Console(file=written), written.write, silence)
        tell("the model on npu")
        tell("[layer] on npu")
        assert written.getvalue() == expected


def test_a_terminal_shows_each_run_in_its_status() -> None:
    status: list[str] = []
    tell = told_in_silence(Console(file=StringIO(), force_terminal=True), status.append, float("inf"))
    tell("the model on npu")
    tell("layer on npu")
    assert status == ["run 1: the model on npu", "run 2: layer on npu"]
