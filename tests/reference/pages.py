"""Pages of docs/reference, each with the function that makes it from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.reference.commands import commands_page
from tests.reference.contract import contract_page
from tests.reference.faults import faults_page
from tests.reference.index import index_page
from tests.reference.limits import limits_page
from tests.reference.messages import messages_page
from tests.reference.metrics import metrics_page
from tests.reference.onnx_operators import onnx_operators_page
from tests.reference.operations.page import operations_page
from tests.reference.tflite import tflite_page
from tests.reference.threats import threats_page
from tests.reference.topology import topology_page
from tests.reference.versions import versions_page

FOLDER = Path(__file__).parents[2] / "docs/reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "README.md": index_page,
    "commands.md": commands_page,
    "contract.md": contract_page,
    "faults.md": faults_page,
    "limits.md": limits_page,
    "messages.md": messages_page,
    "metrics.md": metrics_page,
    "onnx_operators.md": onnx_operators_page,
    "operations.md": operations_page,
    "tflite_coverage.md": tflite_page,
    "threats.md": threats_page,
    "topology.md": topology_page,
    "versions.md": versions_page,
}
