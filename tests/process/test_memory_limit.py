"""A device that takes more memory than it may ends, says so, and others go on."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnhal.admin import EXIT_STATUS
from nnhal.errors import TransportError
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin
from nnhal.types import Request
from nnhal_frontends.onnx import import_onnx
from tests.support.additions import argument
from tests.support.processes import device_process
from tests.support.waiting import SECONDS

LIMIT = 700 << 20


def hungry() -> onnx.ModelProto:
    """A model with four bytes of input and output, and inner tensors of 1.6 GiB."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["big"]),
        helper.make_node("Softmax", ["big"], ["soft"], axis=0),
        helper.make_node("ReduceSum", ["soft"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "hungry",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.array([200 << 10, 1 << 10]), "shape")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.slow
def test_a_device_whose_library_takes_too_much_ends_and_names_the_execution(
    short_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_MEMORY_BYTES", str(LIMIT))
    with device_process("cpu_acc", short_path) as (child, endpoint):
        assert int(Path(f"/proc/{child.pid}/oom_score_adj").read_text()) >= 500
        with RemoteDevice(endpoint, "test") as remote:
            prepared = remote.prepare_model(import_onnx(hungry()).model)
            pool = create_ashmem(128)
            with pytest.raises(TransportError):
                prepared.execute(Request((argument(0, 4),), (argument(64, 4),), (pool,)))
        assert child.process.wait(SECONDS) == EXIT_STATUS
    said = capfd.readouterr().err
    assert re.search(f"NNHAL_DEVICE_MEMORY_BYTES.*executions=.*prepared model.*limit={LIMIT}", said)


def test_operators_see_the_memory_of_a_device_and_its_limit(short_path: Path) -> None:
    with device_process("cpu_ref", short_path) as (child, endpoint), DeviceAdmin(endpoint, child.admin_key) as admin:
        figures = {figure.name: figure.value for figure in admin.device().figures}
    assert 0 < figures["memory that only the process has"] < figures["limit of that memory"]
