"""The command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.fleet import __main__ as command
from benchmarks.fleet.figures import HostFigures, ModelKind, write_figures


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", *words])
    return command.main()


def test_the_fewest_hosts_are_told_or_why_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = ModelKind("a model", (0.01,), (0.1,), 1 << 30)
    write_figures(HostFigures((kind,), 0.0001, (0.0005,), 2), tmp_path / "figures.json")
    words = ["size", "--rate", "1000", "--requests", "2000", "--models", "20", "--balancing", "least"]
    words += ["--figures", str(tmp_path / "figures.json"), "--memory-gib", "8", "--out", str(tmp_path)]
    assert _run(monkeypatch, *words) == 0
    rows = [line.split("|")[1:-1] for line in (tmp_path / "size.md").read_text().splitlines() if line.startswith("|")]
    told = {row[0].strip(): [cell.strip() for cell in row[2:]] for row in rows[2:]}
    assert list(told) == ["everywhere", "hashed", "copies", "popular"]
    assert told["everywhere"][0] == "none" and "20 models need" in told["everywhere"][-1]
    assert told["hashed"][0] == "none" and "its busiest host has" in told["hashed"][-1]
    # 1,000 requests of 10 ms keep 5 hosts of two workers busy.
    assert 5 <= int(told["popular"][0]) <= 10


def test_a_trace_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.csv").write_text("a,b\n")
    assert _run(monkeypatch, "size", "--trace", str(tmp_path / "trace.csv")) == 1
    assert "got the columns ['a', 'b']" in capsys.readouterr().err
