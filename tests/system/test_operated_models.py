"""Models of the repository as an operator sees and changes them, while clients use them."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import helper

from nnhal.errors import HalError
from nnhal.inference import model_config_pb2
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import framework_pb2
from nnhal.v1.framework_admin_pb2 import PlanTarget
from nnhal_client import Framework, V2Server, connect
from nnhal_client.explanation import Explanation, explanation_from_wire
from tests.support.completing import completed
from tests.support.model_server import Devices, Served, devices, model_server
from tests.support.onnx_models import onnx_model
from tests.support.repositories import onnx_file, tflite_file, write
from tests.support.waiting import wait_until
from tests.support.well_formed_framework import FRAMEWORK_METHODS, WellFormedFramework

NASTY = "mid;dle[0]*"
LABELS = ["no", "yes"]
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
CHAIN = PlanTarget(model="chain")


def chain_file() -> bytes:
    """Return four operations in a row: one has a name like a glob, and two have the same."""
    names = ("twin", NASTY, "twin", "last")
    kinds = ("Relu", "Tanh", "Relu", "Tanh")
    nodes = [
        helper.make_node(kind, [f"v{number}" if number else "x"], ["y" if number == 3 else f"v{number + 1}"], name=name)
        for number, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]
    return onnx.ModelProto.SerializeToString(onnx_model(nodes, {"x": (1, 8)}, ["y"]))


def write_repository(repository: Path) -> Path:
    """Write ``chain`` in two versions, and ``labelled``."""
    chain = chain_file()
    config = 'version_policy { all {} } parameters { key: "nnhal.partitioner" value { string_value: "nnapi" } }'
    write(repository, "chain", {"1/model.onnx": chain, "2/model.onnx": chain, "config.pbtxt": config})
    labels = 'output { name: "y" label_filename: "labels.txt" }'
    files: dict[str, bytes | str] = {"config.pbtxt": labels, "labels.txt": "\n".join(LABELS)}
    write(repository, "labelled", {"1/model.onnx": onnx_file(shape=(1, 2)), **files})
    return repository


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = write_repository(tmp_path_factory.mktemp("repository"))
    with model_server(device_processes, repository, "--model-control-mode", "none") as process:
        yield process


@pytest.fixture(scope="module")
def operator(served: Served) -> Iterator[FrameworkAdmin]:
    with FrameworkAdmin(served.endpoint, served.child.admin_key) as admin:
        yield admin


@pytest.fixture
def framework(served: Served) -> Iterator[Framework]:
    with connect(served.endpoint.directory) as session:
        yield session


@contextmanager
def pinned(operator: FrameworkAdmin, *pins: framework_pb2.Pin) -> Iterator[str]:
    """Have ``chain`` keep pins, and then none again."""
    try:
        yield operator.apply("chain", pins)
    finally:
        operator.load("chain")


def pin(match: str, device: str) -> framework_pb2.Pin:
    return framework_pb2.Pin(match=match, device=device)


def devices_of(explanation: framework_pb2.ModelExplanation) -> list[str]:
    return [operation.device for operation in explanation.operations]


def placed(operator: FrameworkAdmin) -> list[str]:
    """Return the devices of the operations of ``chain``."""
    return devices_of(operator.explain(CHAIN).explanation)


def story(operator: FrameworkAdmin) -> Explanation:
    return explanation_from_wire(operator.explain(CHAIN).explanation)


def test_a_model_is_shown_as_the_protocol_shows_it(operator: FrameworkAdmin, served: Served) -> None:
    shown = operator.served_model("labelled")
    assert shown.version == "1"
    assert shown.file == str(served.repository / "labelled/1/model.onnx")
    assert json.loads(shown.config_json)["output"][0]["label_filename"] == "labels.txt"
    assert json.loads(shown.metadata_json)["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [1, 2]}]
    (statistics,) = json.loads(shown.statistics_json)["model_stats"]
    assert (statistics["name"], statistics["version"]) == ("labelled", "1")
    assert list(shown.labels["y"].labels) == LABELS
    assert [tensor.name for tensor in shown.info.inputs] == ["x"]
    assert shown.placement == ""


def test_shells_complete_the_names_of_models(served: Served, short_path: Path) -> None:
    key = short_path / "admin.key"
    key.touch(0o600)
    key.write_text(served.child.admin_key)
    line = f"nnhal show models --directory {served.endpoint.directory.parent} --admin-key {key} "
    assert completed([f"{line}l", f"{line}x"]) == {f"{line}l": ["labelled"], f"{line}x": []}


def test_an_operation_shows_its_costs_and_its_values(operator: FrameworkAdmin) -> None:
    operations = operator.explain(CHAIN).explanation.operations
    assert [list(operation.inputs) for operation in operations] == [["x"], ["v1"], ["v2"], ["v3"]]
    assert [list(operation.outputs) for operation in operations] == [["v1"], ["v2"], ["v3"], ["y"]]
    assert {operation.pin for operation in operations} == {""}
    for operation in operations:
        costs = {cost.device: cost.modelled_ns for cost in operation.costs}
        assert costs.keys() == {"cpu_acc", "cpu_ref"}
        assert costs[operation.device] == operation.modelled_ns > 0


def test_each_step_names_its_prepared_model(operator: FrameworkAdmin) -> None:
    answer = operator.explain(CHAIN)
    assert len(answer.prepared_models) == len(answer.explanation.steps)
    assert all(handle > 0 for handle in answer.prepared_models)
    assert list(answer.missing) == []


def test_every_operation_can_be_pinned_alone(operator: FrameworkAdmin) -> None:
    before = story(operator)
    for index, operation in enumerate(before.operations):
        other = "cpu_ref" if operation.device == "cpu_acc" else "cpu_acc"
        planned = operator.plan(CHAIN, [pin(before.pin_of(index), other)])
        assert devices_of(planned)[index] == other
        assert [entry.pin for entry in planned.operations if entry.pin] == [before.pin_of(index)]
    assert [before.pin_of(index) for index in range(4)] == [
        "index:0",
        "name:mid;dle[[]0][*]",
        "index:2",
        "name:last",
    ]


def test_planning_changes_nothing(operator: FrameworkAdmin) -> None:
    before = operator.explain(CHAIN)
    planned = operator.plan(CHAIN, [pin("index:1-2", "cpu_ref"), pin("index:0", "cpu_acc")])
    assert devices_of(planned)[:3] == ["cpu_acc", "cpu_ref", "cpu_ref"]
    assert len(planned.steps) > 1
    assert {value.value for value in planned.arena_values} >= {"v1"}
    assert operator.explain(CHAIN) == before


def test_a_plan_without_pins_is_the_one_that_runs(operator: FrameworkAdmin) -> None:
    assert operator.plan(CHAIN, []) == operator.explain(CHAIN).explanation


def test_lists_of_pins_and_devices_are_bounded(served: Served, operator: FrameworkAdmin) -> None:
    pins, devices = [pin("index:0", "cpu_ref")] * 1025, ["cpu_ref"] * 257
    for ask in (partial(operator.plan, CHAIN), partial(operator.apply, "chain")):
        with pytest.raises(HalError, match="1025 pins, expected at most 1024"):
            ask(pins)
        with pytest.raises(HalError, match="257 devices, expected at most 256"):
            ask([], devices)
    with WellFormedFramework(served.endpoint, "chain") as session:
        for name in ("LoadModel", "OpenModel", "GetSupportedOperations"):
            method = FRAMEWORK_METHODS[name]
            request: Any = session.request_of(method)
            request.devices.extend(devices)
            failure = session.answer(method, request)
            assert failure is not None
            count = len(request.devices)
            assert failure.message == f"{count} devices, expected at most 256"
    assert operator.plan(CHAIN, []) == operator.explain(CHAIN).explanation


def test_a_plan_may_be_over_other_devices_or_by_another_rule(operator: FrameworkAdmin) -> None:
    assert set(devices_of(operator.plan(CHAIN, [], ["cpu_ref"]))) == {"cpu_ref"}
    partitioner = framework_pb2.PARTITIONER_CPU_ONLY
    assert set(devices_of(operator.plan(CHAIN, [], partitioner=partitioner))) == {"cpu_ref"}


@pytest.mark.parametrize(
    ("pins", "devices", "message"),
    [
        ([pin("index:4", "cpu_ref")], [], "pin 'index:4' matches no node of the model"),
        ([pin("node:x", "cpu_ref")], [], "name:GLOB, op:TYPE, index:N or index:N-M"),
        ([pin("op:TANH", "npu")], [], "pin 'op:TANH': no device 'npu'; there are cpu_acc, cpu_ref"),
        ([pin("op:TANH", "cpu_acc")], ["cpu_ref"], "device 'cpu_acc' is not to be used, expected one of cpu_ref"),
        ([], ["npu"], "no device 'npu'"),
    ],
)
def test_a_plan_that_cannot_be_is_an_error_that_says_why(
    operator: FrameworkAdmin, pins: Sequence[framework_pb2.Pin], devices: Sequence[str], message: str
) -> None:
    before = operator.explain(CHAIN)
    with pytest.raises(HalError) as planned:
        operator.plan(CHAIN, pins, devices)
    with pytest.raises(HalError) as applied:
        operator.apply("chain", pins, devices)
    assert message in planned.value.message
    if not devices:
        assert message in applied.value.message
    assert operator.explain(CHAIN) == before


def test_a_plan_that_is_applied_runs_and_can_be_kept(operator: FrameworkAdmin, served: Served) -> None:
    with V2Server(served.grpc) as server:
        expected = server.open("chain").run({"x": X})
        with pinned(operator, pin("name:mid;dle[[]0][*]", "cpu_ref"), pin("index:2-3", "cpu_acc")) as lines:
            assert placed(operator)[1:] == ["cpu_ref", "cpu_acc", "cpu_acc"]
            shown = operator.served_model("chain")
            assert shown.placement == "name:mid\\;dle[[]0][*]=cpu_ref; index:2-3=cpu_acc"
            kept = text_format.Parse(lines, model_config_pb2.ModelConfig())
            assert {key: value.string_value for key, value in kept.parameters.items()} == {
                "nnhal.placement": shown.placement
            }
            assert operator.served_model("chain", "1").placement == "", "the same pins may mean other operations there"
            outputs = server.open("chain").run({"x": X})
            np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-6)
        assert operator.served_model("chain").placement == ""


def test_the_plans_before_are_told_whoever_has_changed_them(operator: FrameworkAdmin) -> None:
    operator.load("chain")
    first = operator.explain(CHAIN)
    with pinned(operator, pin("op:TANH", "cpu_ref")):
        *_, before = operator.explain(CHAIN).earlier
        assert before.pins == first.pins
        assert list(before.steps) == [step.device for step in first.explanation.steps]
        assert sorted(before.devices) == sorted(device.name for device in first.explanation.devices)
        pinned_steps = [step.device for step in operator.explain(CHAIN).explanation.steps]
    after = operator.explain(CHAIN).earlier
    assert [(each.match, each.device) for each in after[-1].pins] == [("op:TANH", "cpu_ref")]
    assert after[-1].steps == pinned_steps
    assert after[-1].since_ns >= before.since_ns > 0
    operator.load("chain")
    assert operator.explain(CHAIN).earlier == after, "a load that changes nothing adds none"
    assert len(operator.explain(CHAIN).earlier) <= 8


def test_a_plan_is_applied_to_the_version_that_it_was_tried_for(operator: FrameworkAdmin) -> None:
    try:
        operator.apply("chain", [pin("op:TANH", "cpu_ref")], version="1")
        assert operator.served_model("chain", "1").placement == "op:TANH=cpu_ref"
        assert operator.served_model("chain", "2").placement == ""
    finally:
        operator.load("chain")


def test_the_lines_of_a_plan_make_the_same_plan(operator: FrameworkAdmin, served: Served) -> None:
    with pinned(operator, pin("name:mid;dle[[]0][*]", "cpu_ref"), pin("index:2", "cpu_acc")) as lines:
        applied = placed(operator)
    config = (served.repository / "chain/config.pbtxt").read_text() + lines
    write(served.repository, "kept", {"1/model.onnx": chain_file(), "config.pbtxt": config})
    operator.load("kept")
    assert devices_of(operator.explain(PlanTarget(model="kept")).explanation) == applied
    operator.unload("kept")


@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_fails_while_plans_are_applied(device_processes: Devices, tmp_path: Path, workers: int) -> None:
    repository = write_repository(tmp_path)
    ended, failures, counts = threading.Event(), list[BaseException](), [0, 0]
    with model_server(device_processes, repository, "--front-workers", str(workers)) as served:
        address = served.grpc

        def ask(number: int) -> None:
            try:
                with V2Server(address) as server:
                    model = server.open("chain")
                    while not ended.is_set():
                        model.run({"x": X})
                        counts[number] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        with FrameworkAdmin(served.endpoint, served.child.admin_key) as operator:
            for device in ("cpu_ref", "cpu_acc") * 2:
                before = list(counts)
                operator.apply("chain", [pin("op:TANH", device)])
                assert {placed(operator)[1], placed(operator)[3]} == {device}
                while not failures and any(now == then for now, then in zip(counts, before, strict=True)):
                    ended.wait(0.001)
        ended.set()
        for thread in threads:
            thread.join()
    assert failures == []


def test_a_native_client_goes_on_when_a_plan_is_applied(operator: FrameworkAdmin, framework: Framework) -> None:
    model = framework.open("chain")
    expected = model.run({"x": X})
    with pinned(operator, pin("op:TANH", "cpu_ref")):
        np.testing.assert_allclose(model.run({"x": X})["y"], expected["y"], rtol=1e-6)
        assert {place.device for place in model.placements if place.operation == "TANH"} == {"cpu_ref"}


def test_a_session_may_have_a_plan_of_its_own(operator: FrameworkAdmin, framework: Framework) -> None:
    common = framework.open("chain")
    own = framework.open("chain", pins={"op:TANH": "cpu_ref"}, devices=["cpu_ref", "cpu_acc"])
    assert own.version == common.version == "2"
    assert [place.device for place in own.placements if place.operation == "TANH"] == ["cpu_ref"] * 2
    assert placed(operator) == [place.device for place in common.placements]
    np.testing.assert_allclose(own.run({"x": X})["y"], common.run({"x": X})["y"], rtol=1e-6)
    with pytest.raises(HalError, match="no device 'npu'"):
        framework.open("chain", pins={"op:TANH": "npu"})


def test_the_plans_of_sessions_can_be_explained(operator: FrameworkAdmin, framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(chain_file())
    model = framework.load(path, pins={"op:TANH": "cpu_ref"})
    (session,) = [s.id for s in operator.process().sessions if s.client_name == "nnhal-client"]
    target = PlanTarget(session=session, model=model.session_name)
    answer = operator.explain(target)
    assert explanation_from_wire(answer.explanation) == model.explain()
    assert [(entry.match, entry.device) for entry in answer.pins] == [("op:TANH", "cpu_ref")]
    assert devices_of(operator.plan(target, [pin("op:TANH", "cpu_acc")]))[1] == "cpu_acc"
    for wrong in (PlanTarget(session="s0", model="m"), PlanTarget(session=session, model="m")):
        with pytest.raises(HalError, match=r"is not open|is loaded in this session"):
            operator.explain(wrong)


@pytest.mark.parametrize(
    ("file", "content"), [("model.onnx", onnx_file(shape=(1, 8))), ("model.tflite", tflite_file())]
)
def test_a_file_can_be_uploaded_planned_again_and_unloaded(
    operator: FrameworkAdmin, framework: Framework, file: str, content: bytes
) -> None:
    operator.load("given", files={f"1/{file}": content})
    shown = operator.served_model("given")
    assert shown.file == ""
    (device,) = shown.info.steps
    other = "cpu_ref" if device == "cpu_acc" else "cpu_acc"
    operator.apply("given", [pin("index:0", other)])
    assert list(operator.served_model("given").info.steps) == [other]
    assert framework.open("given").run({"x": X})["y"].shape == (1, 8)
    operator.unload("given")
    with pytest.raises(HalError, match="not at ready state"):
        operator.served_model("given")


def test_nothing_is_left_of_an_upload_that_fails(operator: FrameworkAdmin, served: Served) -> None:
    with pytest.raises(HalError, match="failed to load 'broken'"):
        operator.load("broken", files={"1/model.onnx": b"not a model"})
    with pytest.raises(HalError, match="Request for unknown model: 'broken' is not found"):
        operator.served_model("broken")
    with pytest.raises(HalError, match=r"expected VERSION/NAME, such as 1/model\.onnx"):
        operator.load("broken", files={"../../1/model.onnx": onnx_file()})
    assert httpx.get(f"http://{served.http}/v2/health/ready").status_code == 200


def test_plans_that_were_replaced_are_released_on_the_devices(
    operator: FrameworkAdmin, device_processes: Devices
) -> None:
    def held() -> int:
        """Return how many prepared models all devices hold."""
        total = 0
        for endpoint in device_processes.endpoints.values():
            with RemoteDevice(endpoint) as device:
                total += device.usage().prepared_models
        return total

    before = held()
    for _ in range(3):
        with pinned(operator, pin("op:TANH", "cpu_ref")):
            operator.plan(CHAIN, [pin("index:1", "cpu_acc")])
    wait_until(lambda: held() == before, "the devices hold as much as before")


def test_a_device_that_dies_is_missing_and_cannot_be_pinned_to(tmp_path: Path) -> None:
    with (
        devices() as over,
        model_server(over, write_repository(tmp_path)) as served,
        FrameworkAdmin(served.endpoint, served.child.admin_key) as operator,
        V2Server(served.grpc) as server,
    ):
        operator.apply("chain", [pin("op:TANH", "cpu_acc"), pin("op:RELU", "cpu_ref")])
        before = operator.explain(CHAIN)
        os.kill(over.pids["cpu_acc"], signal.SIGKILL)
        wait_until(lambda: list(operator.explain(CHAIN).missing) == ["cpu_acc"], "the device is missing")
        with pytest.raises(HalError, match="device 'cpu_acc' does not answer, expected one of cpu_ref"):
            operator.plan(CHAIN, [pin("op:TANH", "cpu_acc")])
        assert set(devices_of(operator.plan(CHAIN, []))) == {"cpu_ref"}
        original = operator.explain(CHAIN, original=True)
        assert original.explanation == before.explanation
        assert [handle == 0 for handle in original.prepared_models] == [
            step.device == "cpu_acc" for step in original.explanation.steps
        ]
        server.open("chain").run({"x": X})
        wait_until(lambda: set(placed(operator)) == {"cpu_ref"}, "the model is planned again")
        assert list(operator.explain(CHAIN).missing) == ["cpu_acc"]


def test_who_has_no_key_changes_nothing(served: Served, operator: FrameworkAdmin) -> None:
    with FrameworkAdmin(served.endpoint) as stranger:
        for act in (
            lambda: stranger.served_model("chain"),
            lambda: stranger.load("chain"),
            lambda: stranger.unload("chain"),
            lambda: stranger.explain(CHAIN),
            lambda: stranger.plan(CHAIN, []),
            lambda: stranger.apply("chain", []),
        ):
            with pytest.raises(HalError, match="only an operator may"):
                act()
    assert placed(operator)
