"""One name for one thing: no two public classes have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (
    *("hal", "hosting", "frontends", "compilers", "devices", "service", "client", "pages", "dashboard", "tools"),
    "scaleout",
)
GENERATED = ("hal/nnhal/v1", "hal/nnhal/inference")
OPERANDS = "hal/nnhal/operations"
"""Each module names the operands of its operation by an enum ``Input``, or by one for each form of its arguments."""

SHARED = {
    "Model": {"hal/nnhal/types/model.py", "client/nnhal_client/model.py"},
    "Part": {
        "compilers/nnhal_cascade/graph/cascader_graph.py",
        "service/nnhal_service/runtime/plan/parts.py",
    },
    "Plan": {
        "compilers/nnhal_cascade/plans/plan.py",
        "service/nnhal_service/partition/plan.py",
    },
    "OutputTooSmallError": {
        "client/nnhal_client/core/binding_runs.py",
        "service/nnhal_service/runtime/run/reports.py",
    },
    "Shape": {"compilers/nnhal_cascade/geometry/box.py", "hal/nnhal/extensions/onnx_corners.py"},
    "Mean": {"compilers/nnhal_cascade/machine/arithmetic/along_axes.py", "hal/nnhal/extensions/onnx_corners.py"},
    "Softmax": {
        "compilers/nnhal_cascade/machine/arithmetic/along_axes.py",
        "devices/nnhal_devices/cpu_ref/onnx_operators.py",
    },
    "LaunchedRun": {
        "client/nnhal_client/launched.py",
        "service/nnhal_service/runtime/run/launched_run.py",
    },
    "RunReport": {"client/nnhal_client/reports.py", "service/nnhal_service/runtime/run/reports.py"},
}
"""Names that are shared on purpose: one thing on the two sides of a wire, where a client's Model is the handle of a
loaded one; the words of the cascading planner's RFC, which are the partitioner's words too; ONNX's names of operators.
"""


def public_classes() -> Iterator[tuple[str, str]]:
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            if not file.startswith(GENERATED):
                for node in ast.parse(path.read_text()).body:
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                        yield node.name, file


def test_no_two_public_classes_have_the_same_name() -> None:
    files: defaultdict[str, set[str]] = defaultdict(set)
    for name, file in public_classes():
        if not file.startswith(OPERANDS):
            files[name].add(file)
    assert {name: found for name, found in files.items() if len(found) > 1} == SHARED
