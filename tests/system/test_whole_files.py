"""Files that one device takes as they are: nothing that users see of them, or that happens to them, is another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Framework, Model, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.onnx_models import onnx_model, random
from tests.support.testbeds import own_testbed
from tests.support.tflite_files import TfliteFile, floats, int32
from tests.support.waiting import wait_until

CONSTANTS = {"w": random(64, 128, seed=1), "b": random(128, seed=2)}
NODES = [
    helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
    helper.make_node("Add", ["a", "b"], ["c"], name="second"),
    helper.make_node("Relu", ["c"], ["y"], name="last"),
]
SIGMOID = helper.make_node("Sigmoid", ["y"], ["z"], name="end")


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """A framework over the CPU's devices."""
    topology = Topology(device=(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")))
    with own_testbed(topology) as testbed:
        yield testbed


@pytest.fixture(scope="module")
def framework(bed: Testbed) -> Iterator[Framework]:
    with connect(bed.framework) as session:
        yield session


def saved(directory: Path, rows: int | str = 2, *nodes: onnx.NodeProto, declared: Sequence[int | str] = ()) -> Path:
    """A file whose output may be ``declared`` to have another shape than it has."""
    path = directory / "network.onnx"
    model = onnx_model([*NODES, *nodes], {"x": [rows, 64]}, [[*NODES, *nodes][-1].output[0]], CONSTANTS)
    if declared:
        output = model.graph.output[0]
        output.CopyFrom(helper.make_tensor_value_info(output.name, onnx.TensorProto.FLOAT, declared))
    onnx.save(model, path)
    return path


def in_tflite(directory: Path, *codes: str) -> Path:
    """A file in TFLite that computes a matrix product, and then by further operators of one input."""
    file = TfliteFile()
    x, w = file.input("x", floats(2, 64)), file.constant(CONSTANTS["w"].T, floats(128, 64))
    values = file.operator("FULLY_CONNECTED", [x, w], {"a": floats(2, 128)})
    for code in codes:
        values = file.operator(code, values, {code.lower(): floats(2, 128)})
    path = directory / "network.tflite"
    path.write_bytes(file.build(*values))
    return path


def loaded(framework: Framework, path: Path, name: str, defers: bool) -> wire.ModelInfo:
    """Load a file as a client that fetches the placements when it wants them, or as one that does not."""
    with path.open("rb") as file:
        descriptor = Descriptor(os.dup(file.fileno()))
    request = wire.LoadModelRequest(name=name, defers_placements=defers)
    request.descriptor_id = framework.calls.issue(descriptor)
    return framework.calls.call(framework.stub.LoadModel, request).model


def planned(framework: Framework, path: Path, name: str, least: int = 0) -> wire.PlanModelResponse:
    """Ask for a plan as a client that runs nodes itself, and would have the file loaded at once."""
    with path.open("rb") as file:
        descriptor = Descriptor(os.dup(file.fileno()))
    request = wire.PlanModelRequest(leaves_nodes=True, may_load=True)
    request.model.CopyFrom(wire.LoadModelRequest(name=name, min_nodes_per_partition=least))
    request.model.descriptor_id = framework.calls.issue(descriptor)
    return framework.calls.call(framework.stub.PlanModel, request)


def test_a_plan_may_be_the_loaded_file(framework: Framework, tmp_path: Path) -> None:
    path = saved(tmp_path)
    plan = planned(framework, path, "at-once")
    assert (plan.plan, plan.node_count, list(plan.left)) == (0, 3, [])
    (group,) = plan.groups
    assert (list(group.nodes), [step.device for step in group.steps]) == ([0, 1, 2], ["cpu_acc"])
    with Model(framework.calls, framework.stub, plan.loaded) as model:
        x = random(2, 64)
        expected = np.maximum(x @ CONSTANTS["w"] + CONSTANTS["b"], 0)
        np.testing.assert_allclose(model.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)
    few = planned(framework, path, "few", least=4)
    assert not few.HasField("loaded")
    assert [left.node for left in few.left] == [0, 1, 2]


@pytest.mark.parametrize("kind", [2, "rows", "tflite"], ids=["known", "open", "tflite"])
def test_it_is_described_and_explained_as_one_whose_operations_were_planned(
    framework: Framework, tmp_path: Path, kind: int | str
) -> None:
    path = in_tflite(tmp_path, "RELU") if kind == "tflite" else saved(tmp_path, kind)
    whole, planned = (loaded(framework, path, f"{kind}-{defers}", defers) for defers in (True, False))
    assert (whole.placements_deferred, planned.placements_deferred) == (True, False)
    assert not whole.placements
    assert planned.placements[-1].nodes[-1] == ("RELU_1:relu" if kind == "tflite" else "last")
    models = [Model(framework.calls, framework.stub, info) for info in (whole, planned)]
    assert models[0].placements == models[1].placements
    assert models[0].explain() == models[1].explain()
    del whole.placements[:], planned.placements[:]
    whole.name, whole.placements_deferred = planned.name, False
    assert whole == planned
    for model in models:
        model.unload()


@pytest.mark.parametrize("declared", [("rows", 128), (2, 99), (128,)], ids=str)
def test_its_outputs_are_what_it_computes_whatever_it_declares(
    bed: Testbed, framework: Framework, tmp_path: Path, declared: Sequence[int | str]
) -> None:
    x = random(2, 64)
    with framework.load(saved(tmp_path)) as right, RemoteDevice(bed.endpoint("cpu_acc")) as device:
        before = device.usage().prepared_models
        model = framework.load(saved(tmp_path, declared=declared))
        assert (
            [tensor.dimensions for tensor in model.outputs]
            == [tensor.dimensions for tensor in right.outputs]
            == [(2, 128)]
        )
        np.testing.assert_array_equal(model.run({"x": x})["y"], right.run({"x": x})["y"])
        wait_until(lambda: device.usage().prepared_models <= before + 1, "what was prepared as declared is released")
        model.unload()


def test_placements_can_be_read_after_it_is_unloaded(framework: Framework, tmp_path: Path) -> None:
    path = saved(tmp_path)
    with framework.load(path) as model:
        wanted = model.placements
    with framework.load(path) as unread:
        pass
    assert unread.placements == wanted
    with framework.load(path) as other:
        pass
    saved(tmp_path, 3, SIGMOID)
    with pytest.raises(HalError, match="has changed"):
        _ = other.placements


def test_its_runs_are_reported_as_those_of_its_operations(framework: Framework, tmp_path: Path) -> None:
    path, x = saved(tmp_path, 2), random(2, 64)
    reports, results = [], []
    for defers in (True, False):
        with Model(framework.calls, framework.stub, loaded(framework, path, f"run-{defers}", defers)) as model:
            outputs, report = model.run_with_report({"x": x})
            results.append(outputs["y"])
            reports.append([(entry.value, entry.source, entry.destination, entry.bytes) for entry in report.ledger])
    np.testing.assert_allclose(results[0], np.maximum(x @ CONSTANTS["w"] + CONSTANTS["b"], 0), 1e-4, 1e-4)
    np.testing.assert_allclose(results[0], results[1], 1e-5, 1e-5)
    assert reports[0] == reports[1]


def test_it_is_taken_as_it_is_for_dimensions_that_are_bound_too(framework: Framework, tmp_path: Path) -> None:
    with framework.load(saved(tmp_path, "rows")) as model:
        for rows in (3, 1):
            x = random(rows, 64)
            with model.bind(dimensions={"x": (rows, 64)}) as binding:
                binding.inputs["x"][...] = x
                binding.run()
                wanted = np.maximum(x @ CONSTANTS["w"] + CONSTANTS["b"], 0)
                np.testing.assert_allclose(binding.outputs["y"], wanted, 1e-4, 1e-4)
                assert binding.outputs["y"].shape == (rows, 128)


def test_a_tflite_file_that_the_device_does_not_take_is_planned_over_others(
    framework: Framework, tmp_path: Path
) -> None:
    info = loaded(framework, in_tflite(tmp_path, "SIGN", "RELU"), "signs", defers=True)
    assert not info.placements_deferred
    with Model(framework.calls, framework.stub, info) as model:
        x = random(2, 64)
        np.testing.assert_array_equal(model.run({"x": x})["relu"], np.maximum(np.sign(x @ CONSTANTS["w"]), 0))


def test_a_tflite_file_of_which_the_device_refuses_an_operation_is_planned(
    framework: Framework, tmp_path: Path
) -> None:
    file, path = TfliteFile(), tmp_path / "network.tflite"
    x, count = file.input("x", floats(2, 64)), file.constant(np.int32(3))
    (relu,) = file.operator("RELU", [x], {"relu": floats(2, 64)})
    path.write_bytes(file.build(*file.operator("TOPK_V2", [relu, count], {"y": floats(2, 3), "places": int32(2, 3)})))
    infos = [loaded(framework, path, f"top-{defers}", defers) for defers in (True, False)]
    assert not infos[0].placements_deferred
    models = [Model(framework.calls, framework.stub, info) for info in infos]
    assert models[0].placements == models[1].placements
    values = np.maximum(random(2, 64), 0)
    np.testing.assert_array_equal(models[0].run({"x": values})["y"], -np.sort(-values, axis=1)[:, :3])


def test_other_plans_of_it_have_its_operations(framework: Framework, tmp_path: Path) -> None:
    path = saved(tmp_path, 2, SIGMOID)
    pins = {**dict.fromkeys(("name:first", "name:second", "name:last"), "cpu_acc"), "name:end": "cpu_ref"}
    with framework.load(path, pins=pins) as model:
        assert model.steps == ("cpu_acc", "cpu_ref")
    with framework.load(path, devices=["cpu_ref"]) as model:
        assert model.steps == ("cpu_ref",)
        assert len(model.placements) > 1


def test_a_file_that_the_device_refuses_is_refused_in_the_importers_words(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "unknown.onnx"
    onnx.save(onnx_model([helper.make_node("Own", ["x"], ["y"], domain="own")], {"x": [2, 3]}, ["y"]), path)
    refusals = []
    for defers in (True, False):
        with pytest.raises(Exception) as refused:
            loaded(framework, path, f"refused-{defers}", defers)
        refusals.append((type(refused.value), str(refused.value)))
    assert refusals[0] == refusals[1]
