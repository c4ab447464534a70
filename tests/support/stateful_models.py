"""Models that carry values from request to request, as a repository has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper

from tests.support.onnx_models import onnx_model
from tests.support.repositories import write
from tests.support.tflite_variables import running_sum

SUM, RUNNING, CONTROLLED, BATCHED, SHORT, STATELESS = "sum", "running", "controlled", "batched", "short", "stateless"
GROWING, CELL = "growing", "cell"
TURNING = "turning"
"""A model that takes as long as a request says."""


def running_total(shape: tuple[str | int, ...] = (1, 3)) -> bytes:
    """``y`` is ``x`` plus ``before``, and ``after`` is the same."""
    nodes = [helper.make_node("Add", ["x", "before"], ["y"]), helper.make_node("Identity", ["y"], ["after"])]
    return onnx_model(nodes, {"x": shape, "before": shape}, ["y", "after"]).SerializeToString()


def growing_list() -> bytes:
    """``after`` is ``before`` with ``x`` behind it, and ``y`` the sum of all."""
    nodes = [
        helper.make_node("Concat", ["before", "x"], ["after"], axis=1),
        helper.make_node("ReduceSum", ["after", "axes"], ["y"]),
    ]
    inputs: dict[str, tuple[str | int, ...]] = {"x": (1, 1), "before": (1, "n")}
    return onnx_model(nodes, inputs, ["y", "after"], {"axes": np.array([1])}).SerializeToString()


def told_controls() -> bytes:
    """``told`` are the control inputs as floats: start, end, ready, correlation id; ``total`` counts the requests."""
    nodes = [
        helper.make_node("Cast", ["end"], ["end_float"], to=1),
        helper.make_node("Cast", ["ready"], ["ready_float"], to=1),
        helper.make_node("Cast", ["id"], ["id_float"], to=1),
        helper.make_node("Concat", ["start", "end_float", "ready_float", "id_float"], ["told"], axis=0),
        helper.make_node("Add", ["count", "x"], ["total"]),
        helper.make_node("Identity", ["total"], ["next"]),
    ]
    inputs = dict.fromkeys(("x", "start", "end", "ready", "id", "count"), (1,))
    types = {"end": np.int32, "ready": np.bool_, "id": np.int64}
    return onnx_model(nodes, inputs, ["told", "total", "next"], element_types=types).SerializeToString()


def turning() -> bytes:
    """``y`` is ``before`` plus ``turns``, one by one, and ``after`` is the same."""
    number, condition = (helper.make_tensor_value_info(name, code, []) for name, code in (("i", 7), ("c", 9)))
    value, more, goes_on = (
        helper.make_tensor_value_info(name, code, shape)
        for name, code, shape in (("v", 1, [1]), ("w", 1, [1]), ("goes_on", 9, []))
    )
    step = [helper.make_node("Identity", ["c"], ["goes_on"]), helper.make_node("Add", ["v", "one"], ["w"])]
    body = helper.make_graph(step, "body", [number, condition, value], [goes_on, more])
    nodes = [
        helper.make_node("Loop", ["turns", "true", "before"], ["y"], body=body),
        helper.make_node("Identity", ["y"], ["after"]),
    ]
    constants = [
        numpy_helper.from_array(np.ones(1, np.float32), "one"),
        numpy_helper.from_array(np.array(True), "true"),
    ]
    inputs = [helper.make_tensor_value_info(name, code, [1]) for name, code in (("turns", 7), ("before", 1))]
    outputs = [helper.make_tensor_value_info(name, 1, [1]) for name in ("y", "after")]
    graph = helper.make_graph(nodes, "turning", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def cell() -> bytes:
    """The state is the last one and ``x``, of any number of rows, and ``y`` the sums of its rows."""
    nodes = [
        helper.make_node("Add", ["before", "x"], ["after"]),
        helper.make_node("MatMul", ["after", "ones"], ["y"]),
    ]
    constants = {"ones": np.ones((3, 1), np.float32)}
    return onnx_model(nodes, {"x": ("n", 3), "before": ("n", 3)}, ["y", "after"], constants).SerializeToString()


_STATE = 'state { input_name: "before" output_name: "after" data_type: TYPE_FP32 dims: [1, 3] %s }'
_CONTROLS = """
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input { name: "start" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 5] } }
  control_input { name: "end" control { kind: CONTROL_SEQUENCE_END int32_false_true: [-1, 1] } }
  control_input { name: "ready" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [false, true] } }
  control_input { name: "id" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } }
  state { input_name: "count" output_name: "next" }
}
"""


def write_stateful_models(repository: Path) -> Path:
    write(repository, SUM, {"1/model.tflite": running_sum()})
    initial = _STATE % 'initial_state { data_type: TYPE_FP32 dims: [1, 3] data_file: "first" name: "first" }'
    idle = "max_sequence_idle_microseconds: 60000000"
    write(
        repository,
        RUNNING,
        {
            "1/model.onnx": running_total((1, "n")),
            "config.pbtxt": f"sequence_batching {{ direct {{}} {idle} {initial} }}",
            "initial_state/first": np.array([1, 2, 3], np.float32).tobytes(),
        },
    )
    write(repository, CONTROLLED, {"1/model.onnx": told_controls(), "config.pbtxt": _CONTROLS})
    state = 'state { input_name: "before" output_name: "after" data_type: TYPE_FP32 dims: [3] }'
    batched = f"max_batch_size: 4 sequence_batching {{ oldest {{ max_candidate_sequences: 2 }} {idle} {state} }}"
    write(repository, BATCHED, {"1/model.onnx": running_total(("n", 3)), "config.pbtxt": batched})
    one = f"max_batch_size: 4 sequence_batching {{ direct {{}} {idle} {state} }}"
    write(repository, CELL, {"1/model.onnx": cell(), "config.pbtxt": one})
    short = f"sequence_batching {{ max_sequence_idle_microseconds: 1000 {_STATE % ''} }}"
    write(repository, SHORT, {"1/model.onnx": running_total(), "config.pbtxt": short})
    state = 'state { input_name: "before" output_name: "after" }'
    write(
        repository,
        TURNING,
        {"1/model.onnx": turning(), "config.pbtxt": f"sequence_batching {{ direct {{}} {idle} {state} }}"},
    )
    initial = "initial_state { data_type: TYPE_FP32 dims: [1, 0] zero_data: true }"
    state = f'state {{ input_name: "before" output_name: "after" dims: [1, -1] use_growable_memory: true {initial} }}'
    pinned = 'parameters { key: "nnhal.placement" value { string_value: "name:*=cpu_acc" } }'
    write(
        repository,
        GROWING,
        {
            "1/model.onnx": growing_list(),
            "config.pbtxt": f"sequence_batching {{ direct {{}} {idle} {state} }} {pinned}",
        },
    )
    plain = onnx_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (1, 3)}, ["y"]).SerializeToString()
    write(repository, STATELESS, {"1/model.onnx": plain, "config.pbtxt": f"sequence_batching {{ direct {{}} {idle} }}"})
    return repository
