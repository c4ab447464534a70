"""Plans that no device prepares, and models that are loaded from them, through real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, ModelPlan, connect
from nnhal_frontends import DEFAULT_LIMITS
from nnhal_frontends.onnx.parts import OnnxParts
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.repositories import numbers, onnx_file
from tests.support.resources import resources_of
from tests.support.testbeds import kill_for_good, own_testbed
from tests.support.waiting import wait_until

DEVICES = ("ethos_n", "cpu_ref", "cpu_acc")
INT8 = Path(__file__).parents[2] / "tools" / "nnhal_tools" / "demo" / "data" / "digits_int8.onnx"
PLANS = 100
Values = dict[str, Array]
LAG = 8
"""How many descriptors may wait for a garbage collection to be closed."""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Run an NPU beside the CPUs."""
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in DEVICES))
    with own_testbed(topology) as testbed:
        yield testbed


@pytest.fixture
def framework(bed: Testbed) -> Iterator[Framework]:
    with connect(bed.framework) as session:
        yield session


def prepared(bed: Testbed, device: str) -> int:
    with RemoteDevice(bed.endpoint(device)) as session:
        return session.usage().prepared_models


def run_by_onnxruntime(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs), strict=True))


def image() -> Array:
    return np.random.default_rng(0).random((1, 1, 8, 8)).astype(np.float32)


def test_weights_are_in_the_group_of_the_quantised_nodes_that_read_them(framework: Framework) -> None:
    plan = framework.plan(INT8, ["ethos_n"], leaves_nodes=True)
    (group,) = plan.groups
    assert group.nodes == (*range(8), *range(9, 27))
    assert [(step.device, step.nodes) for step in group.steps] == [("ethos_n", group.nodes)]
    assert [(left.node, left.op_type) for left in plan.left] == [
        (8, "QuantizeLinear"),
        (27, "DequantizeLinear"),
        (28, "Softmax"),
        (29, "QuantizeLinear"),
        (30, "DequantizeLinear"),
    ]
    assert plan.left[2].reason == "no device takes it as SOFTMAX"
    assert plan.left[2].refusals["ethos_n"].startswith("OP: got SOFTMAX")
    assert plan.node_count == 31


def in_parts(
    framework: Framework, plan: ModelPlan, model: onnx.ModelProto, inputs: dict[str, Array]
) -> dict[str, Array]:
    """Run the groups of a plan, and what is left by ONNX Runtime, in whatever order values are there."""
    parts, values = OnnxParts(model, DEFAULT_LIMITS), dict(inputs)
    groups = dict(enumerate(plan.groups))
    waiting = [left.node for left in plan.left]
    while groups or waiting:
        for number, group in list(groups.items()):
            if all(tensor.name in values for tensor in group.inputs):
                assert number == len(plan.groups) - len(groups), "groups are in an order in which they can run"
                with framework.load(plan=plan, group=number) as loaded:
                    values |= loaded.run({tensor.name: values[tensor.name] for tensor in loaded.inputs})
                del groups[number]
        for node in list(waiting):
            part = parts.part([node])
            if all(value.name in values for value in part.graph.input):
                values |= run_by_onnxruntime(part, {value.name: values[value.name] for value in part.graph.input})
                waiting.remove(node)
    return values


def with_a_sine() -> onnx.ModelProto:
    """The digits with a sine, which is for no NPU, before the pool."""
    model = onnx.load(INT8)
    nodes = list(model.graph.node)
    (at,) = (number for number, node in enumerate(nodes) if node.name == "pool")
    nodes.insert(at, helper.make_node("Sin", [nodes[at].input[0]], ["sine"], "sine"))
    nodes[at + 1].input[0] = "sine"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.mark.parametrize(("make", "groups"), [(lambda: onnx.load(INT8), 1), (with_a_sine, 2)], ids=["one", "two"])
def test_groups_and_what_is_left_compute_what_the_whole_does(
    framework: Framework, make: Callable[[], onnx.ModelProto], groups: int, tmp_path: Path
) -> None:
    model = make()
    plan = framework.plan(model.SerializeToString(), ["ethos_n"], leaves_nodes=True)
    assert len(plan.groups) == groups
    values = in_parts(framework, plan, model, {"image": image()})
    onnx.save(model, tmp_path / "whole.onnx")
    with framework.load(tmp_path / "whole.onnx", ["ethos_n", "cpu_acc"], partitioner="nnapi") as whole:
        assert np.abs(whole.run({"image": image()})["probabilities"] - values["probabilities"]).max() <= 1 / 256


def test_the_whole_model_is_one_group_if_some_device_takes_each_node(framework: Framework) -> None:
    plan = framework.plan(INT8, ["ethos_n", "cpu_ref"], partitioner="nnapi", leaves_nodes=True)
    (group,) = plan.groups
    assert group.nodes == tuple(range(31))
    assert [step.device for step in group.steps] == ["cpu_ref", "ethos_n", "cpu_ref"]
    assert plan.left == ()
    assert framework.plan(INT8, ["ethos_n", "cpu_ref"], partitioner="nnapi").groups == plan.groups


def test_a_plan_prepares_nothing_and_explains(bed: Testbed, framework: Framework) -> None:
    wait_until(lambda: not any(prepared(bed, device) for device in DEVICES), "models of earlier sessions are released")
    plan = framework.plan(INT8, explains=True)
    assert not any(prepared(bed, device) for device in DEVICES)
    model = framework.load(plan=plan)
    assert sum(prepared(bed, device) for device in DEVICES) == 1
    assert model.explain() == plan.groups[0].explanation
    model.close()


def test_a_plan_of_bytes_is_loaded_twice_and_outlived_by_its_models(framework: Framework) -> None:
    plan = framework.plan(onnx_file(shape=("n", 8)), dimensions={"x": (1, 8)})
    models = [framework.load(plan=plan) for _ in range(2)]
    framework.release(plan)
    framework.release(plan)
    for model in models:
        assert np.allclose(model.run({"x": numbers()})["y"], np.tanh(numbers()))
    refused(framework, plan.handle)


def refused(framework: Framework, handle: int) -> None:
    plan = framework.plan(onnx_file())
    framework.release(plan)
    with pytest.raises(HalError) as caught:
        framework.load(plan=type(plan)(handle, (), (), 0, 0.0))
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
    assert caught.value.message == (
        f"plan {handle} does not exist in this session, was released, or was not used for 300 s"
    )


def test_the_plan_of_another_session_is_unknown(bed: Testbed, framework: Framework) -> None:
    with connect(bed.framework) as other:
        refused(framework, other.plan(onnx_file()).handle)


def test_a_plan_has_all_but_a_group(framework: Framework) -> None:
    plan = framework.plan(onnx_file())
    with pytest.raises(TypeError, match="expected no other arguments but a group"):
        framework.load(plan=plan, devices=["cpu_ref"])
    for group in (-1, 1):
        with pytest.raises(HalError, match=f"group {group} of a plan of 1 groups"):
            framework.load(plan=plan, group=group)


def test_nodes_with_repeated_names_and_none_are_told_by_their_indexes(framework: Framework) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "same"),
        helper.make_node("Sin", ["a"], ["b"], "same"),
        helper.make_node("Abs", ["b"], ["y"]),
        helper.make_node("Sin", ["y"], ["z"]),
    ]
    content = onnx_model(nodes, {"x": (1, 8)}, ["z"]).SerializeToString()
    plan = framework.plan(content, ["cpu_ref"], {"op:SIN": "cpu_ref"}, leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(0, 1, 2, 3)]
    assert [left.name for left in framework.plan(content, ["ethos_n"], leaves_nodes=True).left] == [
        "same",
        "same",
        "",
        "",
    ]
    few = framework.plan(content, ["cpu_ref"], leaves_nodes=True, min_nodes_per_partition=5)
    assert (few.groups, few.handle) == ((), 0)
    assert {each.reason for each in few.left} == {"its group has 4 nodes, and min_nodes_per_partition is 5"}


def test_operators_that_the_format_has_not_are_refused(framework: Framework) -> None:
    content = with_a_sine().SerializeToString()
    assert framework.plan(content, leaves_nodes=True, operators=["Softmax"]).left
    with pytest.raises(HalError, match="got operator 'BANANA', expected one of the file's format") as caught:
        framework.plan(content, leaves_nodes=True, operators=["Sin", "BANANA"])
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
    with pytest.raises(HalError, match="did you mean 'Softmax'"):
        framework.plan(content, leaves_nodes=True, operators=["SOFTMAX"])


def test_a_constant_is_left_with_what_reads_it(framework: Framework) -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value_floats=[2.0]),
        helper.make_node("Neg", ["k"], ["minus"]),
        helper.make_node("Mul", ["x", "minus"], ["y"]),
        helper.make_node("Constant", [], ["unread"], value_float=1.0),
    ]
    content = onnx_model(nodes, {"x": (1, 8)}, ["y"]).SerializeToString()
    plan = framework.plan(content, ["ethos_n"], leaves_nodes=True)
    refusal = "no device takes it as MUL"
    told = f"node 2 reads it, and is left: {refusal}"
    assert [left.reason for left in plan.left] == [told, told, refusal, "no node reads it"]


def test_a_node_with_graphs_of_its_own_is_taken_or_left_as_a_whole(framework: Framework) -> None:
    def branch(op_type: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 8])
        return helper.make_graph([helper.make_node(op_type, ["a"], ["r"], "inner")], op_type, [], [out])

    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["b"], then_branch=branch("Neg"), else_branch=branch("Abs")),
        helper.make_node("Tanh", ["b"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (1, 8), "c": ()}, ["y"], element_types={"c": np.bool_})
    plan = framework.plan(model.SerializeToString(), leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(0, 1, 2)]
    loaded = framework.load(plan=plan)
    for choice in (True, False):
        given = {"x": numbers(), "c": np.array(choice)}
        assert np.allclose(loaded.run(given)["y"], run_by_onnxruntime(model, given)["y"], atol=1e-6)
    everything = framework.plan(model.SerializeToString(), ["ethos_n"], leaves_nodes=True)
    assert [left.node for left in everything.left] == [0, 1, 2]


def test_values_that_are_no_numbers_do_not_pass_the_border(framework: Framework) -> None:
    nodes = [
        helper.make_node("Equal", ["s", "s"], ["t"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("s", TensorProto.STRING, [2]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8]),
    ]
    results = [
        helper.make_tensor_value_info("t", TensorProto.BOOL, [2]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8]),
    ]
    graph = helper.make_graph(nodes, "g", ends, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    plan = framework.plan(model.SerializeToString(), ["cpu_acc"], leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(1,)]
    (left,) = plan.left
    assert left.reason.startswith("'s' would pass between it and others, which is a tensor of strings")


def test_pins_hold_in_the_groups_that_have_what_they_match(framework: Framework) -> None:
    plan = framework.plan(INT8, ["ethos_n", "cpu_ref"], {"name:conv2": "ethos_n"}, leaves_nodes=True)
    assert len(plan.groups) == 1
    assert any(step.device == "ethos_n" and 13 in step.nodes for step in plan.groups[0].steps)
    with pytest.raises(HalError, match="pin 'layer:conv2': expected name:GLOB"):
        framework.plan(INT8, ["ethos_n"], {"layer:conv2": "ethos_n"}, leaves_nodes=True)
    with pytest.raises(HalError, match="a pin by number, expected name:GLOB or op:TYPE if nodes may be left"):
        framework.plan(INT8, pins={"index:3": "cpu_ref"}, leaves_nodes=True)
    with pytest.raises(HalError, match="pin 'name:nothing' matches no node of the model"):
        framework.plan(INT8, pins={"name:nothing": "cpu_ref"}, leaves_nodes=True)


def test_plans_leave_nothing_behind(bed: Testbed, framework: Framework) -> None:
    content = onnx_file(shape=(1, 8))
    framework.release(framework.plan(content))
    processes = [bed.process(name).pid for name in ("framework", *DEVICES)]
    before = [resources_of(pid) for pid in processes]
    for _ in range(PLANS):
        framework.release(framework.plan(content))
    wait_until(
        lambda: all(resources_of(pid).within(then, LAG) for pid, then in zip(processes, before, strict=True)),
        "descriptors and mappings are released",
    )


def test_a_device_that_died_since_the_plan_is_done_without(short_path: Path) -> None:
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in ("cpu_acc", "cpu_ref")))
    with Testbed(topology, short_path, zygote=WARM) as bed, connect(bed.framework) as session:
        content = onnx_file(shape=(1, 8))
        either, only = session.plan(content), session.plan(content, ["cpu_acc"], leaves_nodes=True)
        assert [step.device for step in either.groups[0].steps] == ["cpu_acc"]
        kill_for_good(bed, "cpu_acc")
        model: Model = session.load(plan=either)
        assert np.allclose(model.run({"x": numbers()})["y"], np.tanh(numbers()))
        assert model.steps == ("cpu_ref",)
        with pytest.raises(HalError) as caught:
            session.load(plan=only)
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
