"""Model files that would take all memory are loaded without it, or refused."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_client import Framework
from nnhal_tools.up import Testbed
from tests.support.onnx_models import onnx_model

GIBIBYTE = 1 << 30


def write(folder: Path, nodes: Sequence[onnx.NodeProto], constants: dict[str, Array]) -> Path:
    """Write a model that adds to x the sum of the tensor ``c``, which the nodes compute from constants."""
    ends = [
        helper.make_node("ReduceSum", ["c"], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    file = folder / "model.onnx"
    onnx.save(onnx_model([*nodes, *ends], {"x": [4]}, ["y"], constants), file)
    return file


def give_room(pids: Sequence[int], room: int) -> dict[int, tuple[int, int]]:
    """Limit what processes may have mapped to what they have now and some more; return the limits they had."""
    before = {}
    for pid in pids:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        before[pid] = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + room, before[pid][1]))
    return before


CHAIN = [helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(18)]
CHAIN.append(helper.make_node("Concat", ["c18", "c18"], ["c"], axis=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (CHAIN, {"c0": np.zeros(1024, np.float32)}),
        (
            [helper.make_node("Expand", ["one", "shape"], ["c"])],
            {"one": np.float32(1), "shape": np.array([1 << 15, 1 << 15])},
        ),
        ([helper.make_node("ConstantOfShape", ["shape"], ["c"])], {"shape": np.array([1 << 15, 1 << 15])}),
        (
            [helper.make_node("MatMul", ["column", "row"], ["c"])],
            {"column": np.ones((1 << 15, 1), np.float32), "row": np.ones((1, 1 << 15), np.float32)},
        ),
    ],
    ids=["Concat", "Expand", "ConstantOfShape", "MatMul"],
)
def test_loading_takes_little_memory_whatever_the_constants_would_take(
    testbed: Testbed,
    framework: Framework,
    tmp_path: Path,
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, Array],
) -> None:
    file = write(tmp_path, nodes, {name: np.asarray(value) for name, value in constants.items()})
    pids = [testbed.pid(process.name) for process in testbed.processes]
    before = give_room(pids, GIBIBYTE)
    try:
        framework.load(file).close()
    except HalError as error:
        assert "Unable to allocate" not in error.message
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_AS, limits)
    assert all(device.available for device in framework.devices())
