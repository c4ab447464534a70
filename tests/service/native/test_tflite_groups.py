"""Groups of the operators of TFLite files, between operators that their client runs himself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2_grpc
from nnhal_client import Framework, ModelPlan, connect
from nnhal_frontends.tflite.reader import read_graphs
from nnhal_frontends.tflite.writer import WrittenSubgraph, write_model
from nnhal_hosting.calls import CallLimits
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.runtime import Fleet
from tests.support.drawn_values import random
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats, int32
from tests.support.tflite_operators import OPTIMISED, by_litert, numbers
from tests.support.tflite_variables import FileWithVariables, running_sum

ADD = ("AddOptions", dict[str, object]())
X = random(2, 3)


@pytest.fixture(scope="module")
def framework(cpu_ref: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Framework]:
    endpoint = Endpoint(tmp_path_factory.mktemp("f") / "framework", "framework")
    fleet, sessions = Fleet({"cpu_ref": cpu_ref}), NativeSessions(NativeSession)
    with ServerProcess(endpoint, sessions.opened, SessionLimits(), CallLimits()) as server:
        framework_pb2_grpc.add_FrameworkServiceServicer_to_server(FrameworkServicer(fleet, sessions), server.rpc)
        with connect(endpoint.directory) as session:
            assert isinstance(session, Framework)
            yield session
    fleet.close()


def in_groups(framework: Framework, plan: ModelPlan, content: bytes, given: Mapping[int, Array]) -> list[Array]:
    """Run a file's operators in turn: groups by the framework, what is left by LiteRT, values by their tensors."""
    (graph, *_), values = read_graphs(content), dict(given)
    loaded = {group.nodes[0]: framework.load(plan=plan, group=number) for number, group in enumerate(plan.groups)}
    inside = {node for group in plan.groups for node in group.nodes}
    waiting = [number for number in range(len(graph.operators)) if number in loaded or number not in inside]
    while waiting:
        number = waiting.pop(0)
        operator, model = graph.operators[number], loaded.get(number)
        if model is None:
            needed = [i for i in operator.inputs if i is not None and graph.tensors[i].data is None]
        else:
            needed = [tensor.index for tensor in model.inputs if tensor.index is not None]
        if not values.keys() >= set(needed):
            waiting.append(number)
        elif model is not None:
            found = model.run({t.name: values[t.index] for t in model.inputs if t.index is not None})
            values |= {tensor.index: found[tensor.name] for tensor in model.outputs if tensor.index is not None}
        else:
            values |= zip(operator.outputs, by_host(content, number, needed, values), strict=True)
    return [values[index] for index in graph.outputs]


def by_host(content: bytes, number: int, needed: Sequence[int], values: Mapping[int, Array]) -> list[Array]:
    """Run one operator of a file. ``Twice`` is the only custom one that this client has."""
    (graph, *_) = read_graphs(content)
    operator = graph.operators[number]
    if operator.op_type == "CUSTOM Twice":
        return [2 * values[needed[0]]]

    def stored(index: int) -> tuple[Array, tuple[int, ...]] | None:
        tensor = graph.tensors[index]
        return None if tensor.data is None else (tensor.data, tensor.initial_shape)

    one = WrittenSubgraph(graph.tensors, [operator], needed, operator.outputs, stored)
    named = {graph.tensors[index].name: values[index] for index in needed}
    return by_litert(write_model([one], {}), named, OPTIMISED)


def unary(file: TfliteFile, code: str, tensor: int, name: str) -> int:
    return file.operator(code, [tensor], {name: floats(2, 3)})[0]


def test_a_custom_operator_is_left_and_the_others_run_around_it(framework: Framework) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    before = unary(file, "ABS", x, "same")
    aside = unary(file, "NEG", x, "same")
    twice = unary(file, "Twice", before, "")
    (end,) = file.operator("ADD", [twice, aside], {"same": floats(2, 3)}, ADD)
    content = file.build(end)
    plan = framework.plan(content, leaves_nodes=True)
    (left,) = plan.left
    assert (left.node, left.op_type, left.name) == (2, "CUSTOM Twice", f"CUSTOM Twice_2:tensor_{twice}")
    assert "a custom operator that LiteRT has not" in left.reason
    assert [group.nodes for group in plan.groups] == [(0, 1), (3,)]
    first, last = plan.groups
    assert [tensor.index for tensor in first.inputs] == [x]
    assert [(tensor.index, tensor.name) for tensor in first.outputs] == [(before, "same"), (aside, "same_1")]
    assert [tensor.index for tensor in last.inputs] == [twice, aside]
    assert [(step.device, step.nodes) for step in last.steps] == [("cpu_ref", (3,))]
    (result,) = in_groups(framework, plan, content, {x: X})
    assert np.array_equal(result, 2 * abs(X) - X)


def test_groups_are_the_subsets_of_an_interpreter_of_what_is_not_kept(framework: Framework) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    tensors = [unary(file, "ABS", x, "a"), unary(file, "NEG", x, "b")]
    tensors.append(unary(file, "EXP", tensors[1], "c"))
    content = file.build(*file.operator("ADD", [tensors[0], tensors[2]], {"y": floats(2, 3)}, ADD))
    # The first operator runs first, though it could wait for the other group that reads it.
    plan = framework.plan(content, leaves_nodes=True, keeps=[1])
    assert [group.nodes for group in plan.groups] == [(0,), (2, 3)]
    assert [(left.node, left.reason) for left in plan.left] == [(1, "the client keeps it")]
    assert [group.nodes for group in framework.plan(content, leaves_nodes=True).groups] == [(0, 1, 2, 3)]
    everything = framework.plan(content, leaves_nodes=True, keeps=range(4))
    assert (everything.groups, everything.handle, len(everything.left)) == ((), 0, 4)
    (result,) = in_groups(framework, plan, content, {x: X})
    assert np.allclose(result, abs(X) + np.exp(-X), atol=1e-6)
    few = framework.plan(content, leaves_nodes=True, operators=["NEG", "EXP"])
    assert [group.nodes for group in few.groups] == [(1, 2)]


def test_what_computes_constants_is_in_each_group_that_reads_them(framework: Framework) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    halves = file.constant(random(2, 3, seed=1).astype(np.float16))
    (weights,) = file.operator("DEQUANTIZE", [halves], {"w": floats(2, 3)})
    (first,) = file.operator("ADD", [x, weights], {"a": floats(2, 3)}, ADD)
    twice = unary(file, "Twice", first, "t")
    (last,) = file.operator("ADD", [twice, weights], {"y": floats(2, 3)}, ADD)
    content = file.build(last)
    plan = framework.plan(content, leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(1,), (3,)]
    assert [[tensor.index for tensor in group.inputs] for group in plan.groups] == [[x], [twice]]
    assert plan.left[0].reason == "it computes a constant, as each group does that reads it"
    added = random(2, 3, seed=1).astype(np.float16).astype(np.float32)
    (result,) = in_groups(framework, plan, content, {x: X})
    assert np.allclose(result, 2 * (X + added) + added, atol=1e-6)


def test_an_operator_of_several_operations_is_in_a_group_as_a_whole(framework: Framework) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    (selu,) = file.operator("HARD_SWISH", [unary(file, "Twice", x, "t")], {"h": floats(2, 3)})
    results = file.operator("SQUARED_DIFFERENCE", [selu, x], {"y": floats(2, 3)})
    content = file.build(*results)
    plan = framework.plan(content, leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(1, 2)]
    assert {node for step in plan.groups[0].steps for node in step.nodes} == {1, 2}
    (result,) = in_groups(framework, plan, content, {x: X})
    swish = 2 * X * np.clip(2 * X + 3, 0, 6) / 6
    assert np.allclose(result, (swish - X) ** 2, atol=1e-5)


def test_control_flow_is_one_operator_and_left_if_its_subgraphs_are(framework: Framework) -> None:
    def content(code: str) -> bytes:
        file = TfliteFile()
        inner = file.input("x", floats(2, 3))
        then = file.subgraph(unary(file, code, inner, "r"))
        inner = file.input("x", floats(2, 3))
        otherwise = file.subgraph(unary(file, "NEG", inner, "r"))
        given = [file.input("wanted", booleans()), unary(file, "ABS", file.input("x", floats(2, 3)), "a")]
        options = ("IfOptions", {"ThenSubgraphIndex": then, "ElseSubgraphIndex": otherwise})
        (chosen,) = file.operator("IF", given, {"b": floats(2, 3)}, options)
        return file.build(unary(file, "EXP", chosen, "y"))

    plan = framework.plan(content("SQUARE"), leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(0, 1, 2)]
    plan = framework.plan(content("Twice"), leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(0,), (2,)]
    assert [(left.node, left.op_type) for left in plan.left] == [(1, "IF")]
    assert "CUSTOM Twice" in plan.left[0].reason


def test_variables_are_where_the_whole_model_runs(framework: Framework) -> None:
    plan = framework.plan(running_sum(), leaves_nodes=True)
    (group,) = plan.groups
    assert (group.nodes, plan.left) == (tuple(range(plan.node_count)), ())
    with framework.load(plan=plan) as model, model.bind() as binding:
        for total in (11, 12, 13):
            binding.put("x", np.ones(3, np.float32))
            binding.run()
            assert binding.value("y")[0] == total
    file = FileWithVariables()
    file.initialise({"sum": np.zeros(3, np.float32)})
    x, handle = file.input("x", floats(3)), file.handle("sum")
    (y,) = file.operator("Twice", [x], {"y": floats(3)})
    file.assign(handle, y)
    content = file.build(*file.operator("ABS", [file.read(handle, floats(3))], {"z": floats(3)}))
    plan = framework.plan(content, leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(5,)]
    together = "variables and tables live where all of the model runs"
    assert [left.reason for left in plan.left if left.op_type != "CUSTOM Twice"] == [together] * 4


def test_an_interpreter_with_other_subgraphs_of_a_variable_keeps_it(framework: Framework) -> None:
    file = FileWithVariables()
    given = file.input("given", floats(3))
    file.assign(file.handle("sum"), given)
    file.subgraph()
    content = file.build(*file.operator("ABS", [file.read(file.handle("sum"), floats(3))], {"z": floats(3)}))
    plan = framework.plan(content, leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(2,)]


def test_strings_do_not_pass_the_border(framework: Framework) -> None:
    file = TfliteFile()
    text = file.input("text", Spec((2,), np.int32, code=5))
    x = file.input("x", floats(2, 3))
    (same,) = file.operator("Twice", [text], {"same": Spec((2,), np.int32, code=5)})
    (picked,) = file.operator("GATHER", [same, file.constant(numbers([0]))], {"p": Spec((1,), np.int32, code=5)})
    content = file.build(picked, unary(file, "ABS", x, "y"))
    plan = framework.plan(content, leaves_nodes=True)
    assert [group.nodes for group in plan.groups] == [(2,)]
    reasons = {left.node: left.reason for left in plan.left}
    assert f"'{same}'" in reasons[1] or "strings" in reasons[1]


def test_dimensions_of_an_interpreter_count_instead_of_the_files(framework: Framework) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    a = unary(file, "ABS", x, "a")
    weights = file.constant(random(4, 3, seed=2))
    (y,) = file.operator("FULLY_CONNECTED", [a, weights], {"y": floats(2, 4)}, ("FullyConnectedOptions", {}))
    content, given = file.build(y), random(5, 3)
    lengths = {x: (5, 3), a: (5, 3), y: (5, 4)}
    for tensor_dimensions in (lengths, {x: (5, 3)}):
        plan = framework.plan(content, leaves_nodes=True, tensor_dimensions=tensor_dimensions)
        (group,) = plan.groups
        assert (group.inputs[0].dimensions, group.outputs[0].dimensions) == ((5, 3), (5, 4))
        (result,) = in_groups(framework, plan, content, {x: given})
        assert np.allclose(result, abs(given) @ random(4, 3, seed=2).T, atol=1e-5)
    whole = framework.plan(content, tensor_dimensions=lengths)
    assert whole.groups[0].outputs[0].dimensions == (5, 4)


def test_what_does_not_fit_is_refused_in_words(framework: Framework) -> None:
    file = TfliteFile()
    content = file.build(unary(file, "ABS", file.input("x", floats(2, 3)), "y"))
    for named, said in (
        ({"leaves_nodes": True, "keeps": [1]}, "node 1 is to be kept of 1"),
        ({"operators": ["ABS"]}, "got nodes that the client keeps"),
        ({"keeps": [0]}, "got nodes that the client keeps, and no leave to leave nodes"),
        ({"tensor_dimensions": {2: (1,)}}, r"dimensions \[1\] are given for tensor 2 of 2"),
        ({"tensor_dimensions": {0: (-2, 3)}}, r"dimensions \[-2, 3\] are given for tensor 0"),
    ):
        with pytest.raises(HalError, match=said) as caught:
            framework.plan(content, **named)
        assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_an_open_border_has_its_lengths_in_a_run(framework: Framework) -> None:
    file = TfliteFile()
    x = file.input("x", floats(4))
    (places,) = file.operator("Places", [x], {"places": Spec((1,), np.int32, signature=(-1,))})
    content = file.build(*file.operator("GATHER", [x, places], {"y": Spec((1,), signature=(-1,))}))
    plan = framework.plan(content, leaves_nodes=True)
    (group,) = plan.groups
    assert group.nodes == (1,)
    assert {tensor.index: tensor.dimensions for tensor in group.inputs} == {x: (4,), places: (0,)}
    with framework.load(plan=plan) as model:
        given = {t.name: np.arange(4, dtype=np.float32) if t.index == x else numbers([3, 1, 2]) for t in model.inputs}
        assert model.run(given)["y"].tolist() == [3, 1, 2]


def test_int32_and_the_rest_keep_their_element_types(framework: Framework, short_path: Path) -> None:
    file = TfliteFile()
    x = file.input("x", Spec((2,), np.int64))
    (twice,) = file.operator("Twice", [x], {"t": Spec((2,), np.int64)})
    (y,) = file.operator("ADD", [twice, x], {"y": Spec((2,), np.int64)}, ADD)
    (z,) = file.operator("CAST", [y], {"z": int32(2)}, ("CastOptions", {}))
    content = file.build(y, z)
    path = short_path / "model.tflite"
    path.write_bytes(content)
    plan = framework.plan(path, leaves_nodes=True)
    (group,) = plan.groups
    assert [tensor.element_type for tensor in group.outputs] == [np.int64, np.int32]
    results = in_groups(framework, plan, content, {x: np.array([1, 2])})
    assert [result.tolist() for result in results] == [[3, 6], [3, 6]]
