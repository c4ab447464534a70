"""Operations that are taken, beside the report of Vela 5.2 for Ethos-U55 and U65.

``vela_report.json`` has the operators of that report, each with the numbers in its constraints.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.support import Supported, Unsupported
from nnhal.types import OperationType
from nnhal_cascade.graph.islands import PAIRED, REDUCTIONS, UNARY
from nnhal_cascade.rules import RULES
from nnhal_cascade.rules.vela import BLOCKS, TABLES
from nnhal_cascade.support import supported_operations
from nnhal_frontends import import_file
from tests.support.agreement import single
from tests.support.ethos_u import examples
from tests.support.vela_edges import EDGES, VelaEdge

REPORT: dict[str, list[str]] = json.loads(Path(__file__).with_name("vela_report.json").read_text())
LEFT_OUT = {"ARG_MAX", "UNIDIRECTIONAL_SEQUENCE_LSTM"}
"""The README says why."""
OTHER_NAMES = {
    "GELU": "MUL",
    "LEAKY_RELU": "PRELU",
    "PADV2": "PAD_V2",
    "RELU_0_TO_1": "MINIMUM",
    "RELU_N1_TO_1": "RELU1",
    "REVERSE_V2": "REVERSE",
    "SPLIT_V": "SLICE",
    "SQUARED_DIFFERENCE": "SUB",
    "SUM": "REDUCE_SUM",
    "TRANSPOSE_CONV": "TRANSPOSE_CONV_2D",
    "UNPACK": "SPLIT",
}
"""The operation of the HAL that an operator becomes, or the last but QUANTIZE of an island of floats."""
ISLANDS = {kind.name for kind in UNARY | PAIRED | REDUCTIONS} | {"QUANTIZE"}


def hal_name(operator: str) -> str:
    return OTHER_NAMES.get(operator, operator)


@pytest.mark.parametrize("operator", sorted(REPORT))
def test_each_operator_of_the_report_is_taken_or_left_out_for_a_reason(operator: str) -> None:
    taken = hal_name(operator) in {kind.name for kind in RULES} | ISLANDS
    assert taken != (operator in LEFT_OUT)


def test_what_the_report_lacks_is_named() -> None:
    reported = {hal_name(operator) for operator in REPORT}
    assert {kind for kind in RULES if kind.name not in reported} == BLOCKS
    parts_of_others = {OperationType.DIV}  # of a GELU, or of a quotient of constants
    assert {kind for kind in UNARY if kind.name not in reported} - parts_of_others == TABLES


def answers(model: ResolvedModel) -> tuple[bool, bool]:
    """Return if the only operation is taken, and if it is like Vela."""
    (found,), (strict,) = supported_operations(model), supported_operations(model, True)
    if isinstance(strict, Unsupported):
        assert strict.allowed == "what Vela 5.2 reports for Ethos-U55 and U65"
    return isinstance(found, Supported), isinstance(strict, Supported)


def mean(shape: Sequence[int], axes: Sequence[int]) -> ResolvedModel:
    return single(OperationType.MEAN, Q8AS, [tuple(shape)], [list(axes), 1])


@pytest.mark.parametrize(
    ("model", "is_like_vela"),
    [
        (examples(Q8AS)["DEPTH_TO_SPACE"], False),
        (examples(Q8AS)["SPACE_TO_DEPTH"], False),
        (mean((1, 4, 4, 8), [3]), False),
        (mean((1, 4, 4, 8), [1, 2]), True),
        (mean((1, 1, 4, 8), [3]), True),
        (examples(Q8A)["RSQRT"], False),
        (examples(Q8AS)["RSQRT"], True),
        (examples(Q8AS)["STRIDED_SLICE of every second column"], True),
        (examples(Q8AS)["STRIDED_SLICE with strides"], False),
    ],
)
def test_what_is_beyond_the_report_is_refused_if_asked(model: ResolvedModel, is_like_vela: bool) -> None:
    assert answers(model) == (True, is_like_vela)


@pytest.fixture(scope="module")
def vela() -> str:
    """The program, if it is of the report's version."""
    peers = os.environ.get("NNHAL_PEERS", "")
    found = shutil.which("vela", path=f"{peers}/vela/bin:{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("Vela is neither in the path nor in $NNHAL_PEERS/vela")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if version != "5.2.0":
        pytest.skip(f"Vela is {version}, the table is of 5.2.0")
    return found


each_edge = pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.operator} {edge.constraint}")


@each_edge
def test_a_constraint_means_what_is_just_inside_and_just_outside(edge: VelaEdge, tmp_path: Path) -> None:
    for number, expected in ((edge.inside, True), (edge.outside, False)):
        path = tmp_path / f"{number}.tflite"
        path.write_bytes(edge.build(number))
        answers = supported_operations(import_file(path).resolved(), True)
        assert [isinstance(answer, Supported) for answer in answers] == [expected]


@each_edge
def test_vela_draws_its_lines_at_the_same_places(edge: VelaEdge, vela: str, tmp_path: Path) -> None:
    for number, left in ((edge.inside, 0), (edge.outside, 1)):
        path = tmp_path / f"{number}.tflite"
        path.write_bytes(edge.build(number))
        command = [vela, str(path), "--accelerator-config", "ethos-u55-128", "--output-dir", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert f"CPU operators = {left} " in done.stdout


def test_the_report_is_that_of_the_program(vela: str, tmp_path: Path) -> None:
    subprocess.run([vela, "--supported-ops-report"], cwd=tmp_path, capture_output=True, check=True)
    text = (tmp_path / "SUPPORTED_OPS.md").read_text()
    summary = text.partition("## Ethos-U55 and Ethos-U65 TFLite Summary")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {name: [] for name in re.findall(r"^\| ([A-Z0-9_]+) \|", summary, re.MULTILINE)}
    heading = r"^### Ethos-U55 and Ethos-U65 TFLite (\w+) Constraints\n(.*?)(?=^##)"
    for operator, constraints in re.findall(heading, text, re.MULTILINE | re.DOTALL):
        found[operator] = sorted(set(re.findall(r"\d+(?:[\^*]\d+)?", constraints)))
    assert found == REPORT
