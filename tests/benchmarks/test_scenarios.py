"""``python -m benchmarks``: what it lists, and the scenarios that are quick, each once with little effort."""

from __future__ import annotations

import json
import os
import re
from importlib import import_module

import pytest

from benchmarks.__main__ import SCENARIOS
from tests.support.command import benchmark

_QUICK = {
    "decode": "--tokens 2 --past 4 --growing 3",
    "loading": "5 10",
    "serve": "-i native --concurrency 2 -p 50",
}


def test_all_scenarios_are_listed_and_there() -> None:
    done = benchmark("__main__")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^  (\S+)", done.stdout, re.MULTILINE) == list(SCENARIOS)
    for name, (target, _) in SCENARIOS.items():
        module, _, function = target.partition(":")
        if name != "ort":  # which needs a library that may not be built
            assert callable(getattr(import_module(module), function))


def test_a_scenario_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    done = benchmark("__main__", "nothing")
    assert done.returncode == 1
    assert "got 'nothing', expected one of these" in done.stderr and "zoo.stages" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", _QUICK)
def test_a_scenario_measures_all_of_its_ways(name: str) -> None:
    done = benchmark("__main__", name, *_QUICK[name].split(), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    rows = report if isinstance(report, list) else [row for table in report["tables"] for row in table["rows"]]
    assert len(rows) >= 2


@pytest.mark.slow
@pytest.mark.skipif("NNHAL_PERF_ANALYZER" not in os.environ, reason="NNHAL_PERF_ANALYZER is not set; 'make peers' does")
def test_perf_analyzer_measures_both_protocols_with_bytes_and_shared_memory() -> None:
    done = benchmark("__main__", "serve", "-i", "http,grpc", "--concurrency", "1,2", "-p", "100", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert len({(row["title"], row["concurrency"]) for row in rows}) == 8
    assert all(row["rate"] > 0 and 0 < row["p50"] <= row["p90"] <= row["p99"] for row in rows)


def test_options_that_do_not_fit_are_one_line() -> None:
    done = benchmark("__main__", "serve", "-u", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("-u needs the name of a model: -m MODEL")
