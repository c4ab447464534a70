"""Cost of PlanModel, and what loading from a plan does not cost again."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2_grpc
from nnhal_client import Framework, ModelPlan, connect
from nnhal_frontends import ImportLimits
from nnhal_hosting.calls import CallLimits
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_service.native import requested_models
from nnhal_service.native.kept_plans import KeptPlan
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.runtime import Fleet
from nnhal_service.runtime.loading import planned_groups
from tests.support.repositories import onnx_file
from tests.support.waiting import wait_until


class Served:
    """A framework in this process, with a session of a client, that counts imports and questions to devices."""

    def __init__(self, cpu_ref: Endpoint, folder: Path, patch: pytest.MonkeyPatch, plan_secs: float = 300.0) -> None:
        endpoint = Endpoint(folder / "framework", "framework")
        self.fleet, self.sessions = Fleet({"cpu_ref": cpu_ref}), NativeSessions(NativeSession)
        self.server = ServerProcess(endpoint, self.sessions.opened, SessionLimits(), CallLimits())
        self.servicer = FrameworkServicer(self.fleet, self.sessions, plan_secs=plan_secs)
        framework_pb2_grpc.add_FrameworkServiceServicer_to_server(self.servicer, self.server.rpc)
        self.calls: Counter[str] = Counter()
        for owner, name in (
            (requested_models, "import_model"),
            (planned_groups, "import_model"),
            (RemoteDevice, "assess_model"),
            (RemoteDevice, "prepare_model"),
        ):
            patch.setattr(owner, name, self._counted(name, getattr(owner, name)))
        self.server.__enter__()
        client = connect(endpoint.directory)
        assert isinstance(client, Framework)
        self.client = client

    def _counted(self, name: str, function: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments, **named)

        return counted

    def close(self) -> None:
        self.client.close()
        self.server.__exit__(None, None, None)
        self.fleet.close()


@pytest.fixture
def served(cpu_ref: Endpoint, short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    process = Served(cpu_ref, short_path, monkeypatch)
    yield process
    process.close()


@pytest.mark.parametrize("leaves_nodes", [False, True], ids=["whole", "groups"])
def test_a_load_from_a_plan_imports_and_asks_nothing_again(served: Served, leaves_nodes: bool) -> None:
    plan = served.client.plan(onnx_file(shape=(1, 8)), leaves_nodes=leaves_nodes)
    assert served.calls == {"import_model": 1, "assess_model": 1}
    for loads in (1, 2):
        served.client.load(plan=plan)
        assert served.calls == {"import_model": 1, "assess_model": 1, "prepare_model": loads}


def test_a_load_is_a_plan_and_a_load_from_it(served: Served, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_file(shape=(1, 8)))
    served.client.load(tmp_path / "model.onnx")
    assert served.calls == {"import_model": 1, "assess_model": 1, "prepare_model": 1}


def test_a_plan_that_is_not_used_is_dropped(
    cpu_ref: Endpoint, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(cpu_ref, short_path, monkeypatch, plan_secs=0.05)
    try:
        plan = served.client.plan(onnx_file())
        assert plan.kept_seconds == 0.05
        (session,) = served.sessions.all()
        wait_until(lambda: not session.all(KeptPlan), "the plan is dropped")
        with pytest.raises(HalError, match=f"plan {plan.handle} .* or was not used for 0.05 s"):
            served.client.load(plan=plan)
    finally:
        served.close()


def test_what_a_plan_holds_is_free_when_it_is_released(served: Served) -> None:
    plan = served.client.plan(onnx_file())
    (session,) = served.sessions.all()
    (kept,) = session.all(KeptPlan)
    assert kept.bytes >= len(onnx_file())
    served.client.release(plan)
    del kept
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, KeptPlan)]


def test_the_largest_groups_are_planned_if_there_are_too_many(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_groups, "_MOST_GROUPS", 2)
    operators = ["Relu", "Relu", "Nobodys", "Relu", "Nobodys", "Relu", "Relu", "Relu"]
    values = [f"v{number}" for number in range(len(operators) + 1)]
    nodes = [
        helper.make_node(operator, [read], [written], domain="nobody" if operator == "Nobodys" else "")
        for operator, read, written in zip(operators, values, values[1:], strict=False)
    ]
    first, *others, last = (helper.make_tensor_value_info(value, TensorProto.FLOAT, [4]) for value in values)
    graph = helper.make_graph(nodes, "graph", [first], [last], value_info=others)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nobody", 1)]
    plan = served.client.plan(helper.make_model(graph, opset_imports=opsets).SerializeToString(), leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(0, 1), (5, 6, 7)]
    assert [left.node for left in plan.left] == [2, 3, 4]
    assert plan.left[1].reason == "there are 3 groups, of which the 2 largest are planned"


def test_no_node_is_left_since_a_device_does_not_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.client.release(served.client.plan(onnx_file(), leaves_nodes=True))
    monkeypatch.setattr(served.fleet, "available", lambda *_: [])
    with pytest.raises(HalError, match="nodes would be left, and cpu_ref cannot be asked about them") as told:
        served.client.plan(onnx_file(), leaves_nodes=True)
    assert told.value.status == ErrorStatus.DEVICE_UNAVAILABLE


def test_a_plan_is_of_a_model_and_not_of_a_plan(served: Served) -> None:
    plan: ModelPlan = served.client.plan(onnx_file())
    with pytest.raises(TypeError, match="expected the path of a model file"):
        served.client.load(plan)  # type: ignore[arg-type] # a plan is named as such


def test_a_model_of_too_many_nodes_is_refused_before_it_is_looked_at(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.servicer._requested, "_limits", ImportLimits(nodes=0))
    with pytest.raises(HalError, match="the model has 1 nodes, at most 0 are allowed"):
        served.client.plan(onnx_file(), leaves_nodes=True)
    assert served.calls == {}
