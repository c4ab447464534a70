"""Runs over memory that is lost meanwhile: no access may be by a thread that holds the interpreter's lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
import numpy as np
from onnx import TensorProto, helper
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, NnhalError
from nnhal.memory import MemoryGuard, faults_admitted, map_file, open_pool
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import Argument, Control, DriverOptions, PrepareOptions
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import resolved

SIZE = 1 << 20
operator, threads = sys.argv[1], int(sys.argv[2])
is_text = operator == "Identity"
code = TensorProto.STRING if is_text else TensorProto.FLOAT
shape = [2] if is_text else [SIZE // 4]
inputs = [helper.make_tensor_value_info("x", code, shape)]
is_open = operator == "NonZero"
output = helper.make_tensor_value_info("y", TensorProto.INT64 if is_open else code, [1, "m"] if is_open else shape)
graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", inputs, [output])
imported = import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))

guard = MemoryGuard()
driver = CpuAcc(DriverOptions(threads))
assert driver.memory.unlocked
with faults_admitted():
    workload = driver.prepare(resolved(imported.model), PrepareOptions())
for lost in ("input", "output"):
    pools = {}
    for name, size in (("input", SIZE), ("output", 4 * SIZE)):
        descriptor = Descriptor(os.memfd_create(name))
        os.ftruncate(descriptor.fileno(), size)
        pools[name] = descriptor, open_pool(map_file(descriptor, size), True, guard)
    given, taken = (pool.view(0, pool.size) for _, pool in pools.values())
    regions = [pool.region for _, pool in pools.values()]
    if is_text:
        from nnhal.extensions.values import value_to_bytes
        text = np.frombuffer(value_to_bytes(np.array(["a" * 1000] * 2, object)), np.uint8)
        pools["input"][1].write(0, text)
        given = given[: len(text)]
    else:
        pools["input"][1].write(0, np.ones(SIZE // 4, np.float32).view(np.uint8))
    dimensions = (len(given),) if is_text else (SIZE // 4,)
    main = imported.model.main
    declared = main.operands[main.output_indexes[0]].dimensions
    bound = workload.bind([Argument(given, dimensions)], [Argument(taken, declared)])
    try:
        with guard.use(regions):
            os.ftruncate(pools[lost][0].fileno(), 0)
            bound.run(Control())
    except HalError as error:
        assert "a file pool has been truncated" in error.message, error
        print(lost)
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("operator", ["Relu", "NonZero", "Identity"])
def test_a_run_ends_when_its_memory_is_lost(operator: str, threads: int) -> None:
    """Numbers, results whose size depends on the data, and strings."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, operator, str(threads)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stdout.split()) == (0, ["input", "output"]), done.stderr
