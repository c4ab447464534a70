"""Figures of hosts as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.fleet import __main__ as command
from benchmarks.fleet.figures import FiguresError, HostFigures, ModelKind, read_figures, write_figures

FIGURES = HostFigures(
    (ModelKind("small", (0.001, 0.002), (0.1,), 1 << 20), ModelKind("large", (0.01,), (0.5, 0.6), 1 << 24)),
    front_seconds=0.0002,
    way_seconds=(0.0004, 0.0005),
    workers=2,
    fronts=3,
    memory_bytes=1 << 30,
    most_requests=99,
)


def test_figures_are_written_and_read_again(tmp_path: Path) -> None:
    write_figures(FIGURES, tmp_path / "figures.json")
    assert read_figures(tmp_path / "figures.json") == FIGURES


def test_models_are_of_the_kinds_in_turn() -> None:
    assert [FIGURES.kind_of(model).name for model in range(3)] == ["small", "large", "small"]
    assert FIGURES.kinds[0].mean_seconds == pytest.approx(0.0015)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"kinds": [], "front_seconds": 0, "way_seconds": [0], "workers": 1})]
)
def test_a_file_without_figures_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "figures.json"
    file.write_text(text)
    with pytest.raises(FiguresError, match="expected"):
        read_figures(file)


def test_the_figures_that_come_with_the_command_can_be_read() -> None:
    known = read_figures(command._FIGURES)
    assert known.workers == 2 and known.kinds[0].mean_seconds > 0
