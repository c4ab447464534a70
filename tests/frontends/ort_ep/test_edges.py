"""Models and programs at the edges of what ONNX Runtime does: answers are those of its CPU provider."""

from __future__ import annotations

import gc
import json
import queue
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import nnhal_ort
from nnhal.arrays import Array
from nnhal_ort import get_ep_name
from nnhal_tools.up import Testbed
from tests.frontends.ort_ep.sessions import (
    DIGITS,
    DIGITS_INT8,
    GIVES_OUTER_VALUES,
    Value,
    answers,
    assert_same,
    assigned,
    image,
    model_of,
    needs_memory_info,
    provider_memory,
    reference,
    session,
)

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the provider

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.array([-1, 2, 3], np.float32)
node = helper.make_node


def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    """A graph without inputs that computes z."""
    return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("z", FLOAT, [3])])


@pytest.mark.parametrize("outputs", [["y"], ["y", "b"]], ids=["inside", "and-an-output"])
def test_a_dequantizer_of_several_readers_divides_no_group(provider: Testbed, outputs: list[str]) -> None:
    """The weight's has two convolutions, and that of the first layer the second one and, perhaps, the user."""
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["xq"]), node("DequantizeLinear", ["w", "ws", "z"], ["wd"])]
    for given, quantized, result in (("a", "x", "c"), ("b", "c", "d")):
        nodes.append(node("DequantizeLinear", [quantized + "q", "s", "z"], [given]))
        nodes.append(node("Conv", [given, "wd"], [result], pads=[1] * 4))
        nodes.append(node("QuantizeLinear", [result, "s", "z"], [result + "q"]))
    nodes.append(node("DequantizeLinear", ["dq", "s", "z"], ["y"]))
    shape, random = [1, 4, 8, 8], np.random.default_rng(0)
    constants: dict[str, Array] = {
        "w": random.integers(100, 156, (4, 4, 3, 3)).astype(np.uint8),
        "s": np.array(0.05, np.float32),
        "z": np.array(128, np.uint8),
        "ws": np.array(0.02, np.float32),
    }
    model = model_of(nodes, [("x", FLOAT, shape)], [(name, FLOAT, shape) for name in outputs], constants)
    made = session(model, strict=False, devices="ethos_n")
    (group,) = assigned(made)
    assert [group.count(operator) for operator in ("Conv", "QuantizeLinear")] == [2, 2]
    assert_same(made, model, {"x": random.standard_normal(shape, np.float32)})


def test_nodes_need_no_names(provider: Testbed) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Dropout", ["b"], ["y", ""])]
    model = model_of(nodes, [("x", FLOAT, [3])], [("y", FLOAT, [3])])
    made = session(model)
    assert assigned(made) == [["Relu", "Neg", "Dropout"]]
    assert_same(made, model, {"x": X})


def loop() -> bytes:
    """A loop that reads x from the graph around it."""
    nodes = [node("Add", ["acc", "x"], ["acc2"]), node("Identity", ["c"], ["c2"]), node("Mul", ["acc2", "x"], ["t"])]
    values = [helper.make_tensor_value_info(*v) for v in (("i", INT64, []), ("c", BOOL, []), ("acc", FLOAT, [3]))]
    made = [helper.make_tensor_value_info(*v) for v in (("c2", BOOL, []), ("acc2", FLOAT, [3]), ("t", FLOAT, [3]))]
    body = helper.make_graph(nodes, "body", values, made)
    return model_of(
        [node("Loop", ["n", "", "x0"], ["y", "s"], body=body), node("Relu", ["y"], ["z"])],
        [("n", INT64, []), ("x0", FLOAT, [3]), ("x", FLOAT, [3])],
        [("z", FLOAT, [3]), ("s", FLOAT, ["k", 3])],
    )


def times(count: int) -> Mapping[str, Array]:
    return {"n": np.array(count), "x0": np.zeros(3, np.float32), "x": X}


def test_a_loop_is_taken_with_its_body(provider: Testbed) -> None:
    made = session(loop(), strict=GIVES_OUTER_VALUES)
    assert assigned(made) == ([["Loop", "Relu"]] if GIVES_OUTER_VALUES else [])
    assert_same(made, loop(), *(times(count) for count in (3, 0, 5)))


def test_branches_in_branches_are_taken_with_the_outermost(provider: Testbed) -> None:
    inner = node(
        "If",
        ["d"],
        ["z"],
        then_branch=branch(node("Add", ["x", "w"], ["z"], name="same")),
        else_branch=branch(node("Sub", ["x", "w"], ["z"], name="same")),
    )
    outer = node("If", ["c"], ["y"], then_branch=branch(inner), else_branch=branch(node("Mul", ["x", "x"], ["z"])))
    inputs = [("c", BOOL, []), ("d", BOOL, []), ("x", FLOAT, [3])]
    model = model_of([outer], inputs, [("y", FLOAT, [3])], {"w": X})
    made = session(model, strict=GIVES_OUTER_VALUES)
    assert assigned(made) == ([["If"]] if GIVES_OUTER_VALUES else [])
    cases = [(True, True), (True, False), (False, False)]
    assert_same(made, model, *({"c": np.array(c), "d": np.array(d), "x": X} for c, d in cases))


def test_what_no_node_reads_or_writes_passes(provider: Testbed) -> None:
    inputs: list[Value] = [("x", FLOAT, [3]), ("passed", FLOAT, [2]), ("default", FLOAT, [2]), ("unread", INT64, ["n"])]
    outputs: list[Value] = [("passed", FLOAT, [2]), ("y", FLOAT, [3]), ("default", FLOAT, [2])]
    ones = np.ones(2, np.float32)
    model = model_of([node("Relu", ["x"], ["y"])], inputs, outputs, {"default": ones})
    given: dict[str, Array] = {"x": X, "passed": 2 * ones, "unread": np.zeros(4, np.int64)}
    assert_same(session(model), model, given, {**given, "default": 3 * ones})


def test_what_only_a_branch_reads_is_read(provider: Testbed) -> None:
    made = node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch(node("Add", ["x", "inside"], ["z"])),
        else_branch=branch(node("Neg", ["x"], ["z"])),
    )
    inputs: list[Value] = [("c", BOOL, []), ("x", FLOAT, [3]), ("inside", FLOAT, [3]), ("nowhere", FLOAT, [3])]
    model = model_of([made], inputs, [("y", FLOAT, [3])])
    given = {"x": X, "inside": 2 * X, "nowhere": X}
    assert_same(session(model, GIVES_OUTER_VALUES), model, *({"c": np.array(c), **given} for c in (True, False)))


def test_as_many_as_a_value_says(provider: Testbed) -> None:
    values = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    model = model_of(
        [node("TopK", ["x", "k"], ["v", "i"], axis=0)],
        [("x", FLOAT, ["n"]), ("k", INT64, [1])],
        [("v", FLOAT, ["m"]), ("i", INT64, ["m"])],
    )
    counts = [(10, 3), (10, 10), (3000, 2900), (10, 0), (10, 1)]
    assert_same(session(model), model, *({"x": values[:n], "k": np.array([k])} for n, k in counts))


def test_values_that_are_found_may_be_none(provider: Testbed) -> None:
    nodes = [
        node("Greater", ["x", "zero"], ["above"]),
        node("NonZero", ["above"], ["places"]),
        node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        node("GatherND", ["x", "rows"], ["found"]),
        node("Mul", ["found", "found"], ["y"]),
    ]
    model = model_of(nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["m"])], {"zero": np.zeros(1, np.float32)})
    assert_same(session(model), model, {"x": X}, {"x": -np.abs(X)}, {"x": np.ones(2000, np.float32)})


@needs_memory_info
def test_inputs_may_be_empty(provider: Testbed) -> None:
    nodes = [node("Concat", ["x", "past"], ["y"], axis=0), node("Relu", ["past"], ["z"])]
    model = model_of(
        nodes,
        [("x", FLOAT, [2, 3]), ("past", FLOAT, ["n", 3])],
        [("y", FLOAT, ["m", 3]), ("z", FLOAT, ["n", 3])],
    )
    ones = np.ones((2, 3), np.float32)
    counts = (0, 2, 0, 0, 7)
    made = session(model, devices="cpu_acc")
    assert_same(made, model, *({"x": ones, "past": np.full((count, 3), -count, np.float32)} for count in counts))
    memory = onnxruntime.OrtValue.ortvalue_from_shape_and_type((0, 3), np.float32, memory_info=provider_memory())
    binding = made.io_binding()
    binding.bind_cpu_input("x", ones)
    binding.bind_ortvalue_input("past", memory)
    binding.bind_output("y")
    binding.bind_output("z")
    made.run_with_iobinding(binding)
    y, z = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(y, ones)
    assert z.shape == (0, 3)


def test_runs_may_be_asynchronous(provider: Testbed) -> None:
    made, plain = session(DIGITS, devices="cpu_acc"), reference(DIGITS)
    done: queue.SimpleQueue[tuple[int, list[Array], str]] = queue.SimpleQueue()
    given = [{"image": image(seed)} for seed in range(8)]  # which the caller keeps until the runs have ended
    for seed, inputs in enumerate(given):
        made.run_async(None, inputs, lambda results, seed, error: done.put((seed, results, error)), seed)
    for seed, results, error in (done.get(timeout=60) for _ in range(8)):
        assert error == ""
        np.testing.assert_array_equal(results, answers(plain, given[seed]))


def test_a_profile_has_the_group(provider: Testbed, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    made = onnxruntime.InferenceSession(str(DIGITS), options, providers=[get_ep_name()])
    made.run(None, {"image": image()})
    events: list[Any] = json.loads(Path(made.end_profiling()).read_text())
    assert [event["args"]["provider"] for event in events if event["cat"] == "Node"] == [get_ep_name()]


def test_a_compiled_model_has_its_other_nodes(provider: Testbed, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_metadata.get("nnhal_device") == "ethos_n"]
    options.add_provider_for_devices(devices, {})
    path = tmp_path / "compiled.onnx"
    onnxruntime.ModelCompiler(options, str(DIGITS_INT8)).compile_to_file(str(path))
    kinds = [made.op_type for made in onnx.load(path).graph.node]
    assert kinds == ["QuantizeLinear", "EPContext", "DequantizeLinear", "Softmax", "QuantizeLinear", "DequantizeLinear"]
    again = session(path, strict=False, devices="ethos_n")
    assert assigned(again) == [["EPContext"]]
    given = {"image": image()}
    np.testing.assert_array_equal(answers(again, given), answers(reference(DIGITS_INT8), given))


def test_a_compiled_model_has_its_defaults(provider: Testbed, tmp_path: Path) -> None:
    inputs: list[Value] = [("x", FLOAT, [3]), ("w", FLOAT, [3])]
    model = model_of([node("Add", ["x", "w"], ["y"])], inputs, [("y", FLOAT, [3])], {"w": X})
    options = onnxruntime.SessionOptions()
    options.add_provider(get_ep_name(), {})
    path = tmp_path / "compiled.onnx"
    onnxruntime.ModelCompiler(options, model).compile_to_file(str(path))
    assert_same(session(path), model, {"x": 2 * X})


@needs_memory_info
def test_memory_outlives_the_library_and_the_session(provider: Testbed) -> None:
    made = session(DIGITS, devices="cpu_acc")
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type((1, 1, 8, 8), np.float32, memory_info=provider_memory())
    binding = made.io_binding()
    binding.bind_ortvalue_input("image", value)
    binding.bind_output("probabilities")
    onnxruntime.unregister_execution_provider_library("nnhal")
    value.numpy()[...] = image()
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu(), answers(reference(DIGITS), {"image": image()}))
    del made, binding
    gc.collect()
    np.testing.assert_array_equal(value.numpy(), image())
    del value
    nnhal_ort.register()
