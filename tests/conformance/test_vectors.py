"""``nnhal conformance`` against real device processes. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from nnhal.resolved import ResolvedModel, inline_constants
from nnhal_devices.driver import DriverOptions
from nnhal_devices.registry import registry
from nnhal_tools.cases.case import ExecutionMode, MemoryChoice
from nnhal_tools.cases.vectors import parse_vector
from tests.conformance.vectors import NEEDS_VECTORS, vector_lines
from tests.support.command import nnhal
from tests.support.npu import is_taken

_FOLDER = os.environ.get("NNHAL_CONFORMANCE", "")
pytestmark = NEEDS_VECTORS
_SOME = (
    r"^(conv_quant8_(channels|large|overflow)|lstm3?(_float16)?|while_fib_n_5(_quant8)?|concat_(quant8_2|zero_sized)"
    r"|concat_mixed_quant_quant8|concat_invalid_rank|roi_pooling_quant8_signed_nhwc_quant8_signed|pad_all_dims)$"
)
"""Vectors for every special kind of operands and outputs: per channel, omitted, dynamic, several outputs."""
_LEAST = 12
"""Of these there are more."""


class Line(NamedTuple):
    """The line of a vector, and its model unless devices must refuse it."""

    line: str
    model: ResolvedModel | None


@pytest.fixture(scope="module")
def tests() -> list[Line]:
    found = []
    for line in vector_lines():
        vector = parse_vector(json.loads(line))
        model = None if vector.expect_failure else ResolvedModel(vector.model, inline_constants(vector.model))
        found.append(Line(line, model))
    return found


def results(vectors: str, path: Path, *arguments: str) -> Sequence[dict[str, str]]:
    """Return how each test ended; a failure shows what failed."""
    result = path / "results.json"
    done = nnhal("conformance", vectors, "--json", str(result), *arguments, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found: Sequence[dict[str, str]] = json.loads(result.read_text())["cases"]
    return found


def test_cpu_ref_passes_every_vector(tmp_path: Path) -> None:
    found = results(_FOLDER, tmp_path, "--device", "cpu_ref")
    assert {test["verdict"] for test in found} == {"passed"}


@pytest.mark.parametrize(
    ("driver", "least_share"),
    [("cpu_acc", 0.6), ("gpu_acc", 0.35), ("ethos_n", 0.03), ("ethos_u", 0.06), ("mlip", 0.05)],
)
def test_a_device_passes_all_that_it_supports_and_supports_enough(
    tmp_path: Path, tests: Sequence[Line], driver: str, least_share: float
) -> None:
    """Tests that its rules decline are not asked over the socket, which would take most of the time."""
    device, file = registry().create(driver, DriverOptions()), tmp_path / "tests.jsonl"
    asked = [test for test in tests if test.model is None or is_taken(test.model, device.supported_operations)]
    file.write_text("".join(test.line for test in asked))
    found = results(str(file), tmp_path, "--device", driver)
    assert {test["verdict"] for test in found} == {"passed"}
    assert len(found) == len(asked) >= least_share * len(tests)


@pytest.mark.contract("EX-01", "EX-05", "EX-10", "EX-12", "EX-14", "EX-17")
def test_every_mode_over_every_kind_of_memory_gives_the_same_results(tmp_path: Path) -> None:
    ways = [*(("--mode", mode) for mode in ExecutionMode), *(("--memory", memory) for memory in MemoryChoice)]
    arguments = [argument for way in ways for argument in way]
    found = results(_FOLDER, tmp_path, "--device", "cpu_ref", "--filter", _SOME, *arguments)
    assert {test["verdict"] for test in found} == {"passed"}
    counts = Counter((test["mode"], test["memory"]) for test in found)
    assert counts.keys() == set(product(ExecutionMode, MemoryChoice))
    assert min(counts.values()) > _LEAST
