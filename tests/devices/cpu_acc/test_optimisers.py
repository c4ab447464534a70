"""Optimisations of ONNX Runtime that change the results of quantised graphs: the list of the session is made here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as binding

from nnhal_devices.cpu_acc.session import INEXACT, INTEGERS, RUNTIME_ERRORS, session_options

Values = NDArray[Any]
_IMAGE, _ROWS = (1, 4, 6, 6), (5, 8)
_STEP = 0.06


def quantised(operator: str, kind: type[np.generic], **given: Any) -> tuple[onnx.ModelProto, dict[str, Values]]:
    """Return an operator between quantised tensors, and inputs.

    ``weights`` and ``bias`` tell the types of its constants, ``attributes`` its attributes, ``second`` whether it has
    two inputs.
    """
    rng = np.random.default_rng(len(operator))
    rows = operator in ("Gemm", "MatMul")
    constants: dict[str, Values] = {}
    nodes: list[onnx.NodeProto] = []

    def again(name: str, scale: float, zero_point: int) -> str:
        parameters = [f"{name} scale", f"{name} zero"]
        constants.update(zip(parameters, (np.asarray(np.float32(scale)), np.asarray(kind(zero_point))), strict=True))
        nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name} q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name} q", *parameters], [f"{name} r"]))
        return f"{name} r"

    def stored(name: str, values: Values, scale: Values, axis: int = 0) -> str:
        constants.update({name: values, f"{name} scale": scale})
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name} scale"], [f"{name} r"], axis=axis))
        return f"{name} r"

    zero_point = 128 if kind == np.uint8 else 3
    feeds = {"x": rng.normal(size=_ROWS if rows else _IMAGE).astype(np.float32) * 2}
    read = [again("x", 0.037, zero_point)]
    if given.get("second"):
        feeds["z"] = rng.normal(size=_IMAGE).astype(np.float32) * 2
        read.append(again("z", 0.05, zero_point - 2))
    shape = given.get("shape", ())
    if given.get("weights") == "floats":
        constants["w"] = rng.normal(size=shape).astype(np.float32) / 5
        read.append("w")
    elif shape:
        scale = np.full(shape[0] if given.get("weights") == "by channel" else (), 0.021, np.float32)
        read.append(stored("w", rng.integers(-127, 128, shape).astype(np.int8), scale))
    if given.get("bias") == "floats":
        constants["b"] = rng.normal(size=shape[-1] if rows else shape[0]).astype(np.float32)
        read.append("b")
    if operator == "Resize":
        constants["sizes"] = np.array([1, 4, 9, 11])
        read += ["", "", "sizes"]
    nodes.append(helper.make_node(operator, read, ["o"], **given.get("attributes", {})))
    result = again("o", _STEP, zero_point)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape) for name, value in feeds.items()],
        [onnx.ValueInfoProto(name=result)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model), feeds


_CONV, _GEMM, _PAIR, _WINDOW = (4, 4, 3, 3), (8, 7), {"second": True}, {"attributes": {"kernel_shape": [2, 2]}}
_USES: Sequence[tuple[str, Mapping[str, Any]]] = (
    *(("Conv", {"shape": _CONV, "weights": how}) for how in ("of the tensor", "by channel", "floats")),
    ("Conv", {"shape": _CONV, "bias": "floats"}),
    ("Conv", {"shape": _CONV, "weights": "floats", "bias": "floats"}),
    ("ConvTranspose", {"shape": _CONV, "weights": "floats"}),
    *((name, {"shape": _GEMM, "weights": how}) for name in ("MatMul", "Gemm") for how in ("of the tensor", "floats")),
    ("Gemm", {"shape": _GEMM, "bias": "floats"}),
    *((name, _PAIR) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    ("Concat", {**_PAIR, "attributes": {"axis": 1}}),
    *((name, _WINDOW) for name in ("AveragePool", "MaxPool", "LpPool")),
    *((name, {}) for name in ("GlobalAveragePool", "ReduceMean", "Softmax", "Sigmoid", "Tanh", "Relu", "LeakyRelu")),
    *((name, {}) for name in ("HardSwish", "Gelu", "Elu", "Erf", "Exp", "Sqrt", "Abs", "Clip", "Flatten", "Transpose")),
    *(("Resize", {"attributes": {"mode": mode}}) for mode in ("nearest", "linear")),
)
"""Operators, and how they are used."""


@cache
def optimisations() -> list[str]:
    """Return the names that optimisations of the installed ONNX Runtime may have: its classes."""
    library = Path(binding.__file__).read_bytes()
    names = sorted({found.decode() for found in re.findall(rb"N11onnxruntime\d+([A-Za-z]\w*?)E\0", library)})
    return [*names, *(f"{name}_CPUExecutionProvider" for name in names)]


def computed(model: onnx.ModelProto, feeds: Mapping[str, Values], disabled: Sequence[str] | None) -> Values | None:
    """Return the result of the session's options without some optimisations, or with none if ``disabled`` is None."""
    options = session_options(1)
    if INTEGERS in (disabled or ()):  # which that changes, and ONNX Runtime then refuses scales by channel
        options.add_session_config_entry("session.x64quantprecision", "0")
    if disabled is None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"], disabled_optimizers=list(disabled or ())
        )
        return np.asarray(session.run(None, dict(feeds))[0])
    except RUNTIME_ERRORS:
        return None  # some optimisations need others


def culprits(model: onnx.ModelProto, feeds: Mapping[str, Values]) -> set[str]:
    """Return the optimisations without which a graph has the bits that it has without any."""
    wanted, names, found = computed(model, feeds, None), optimisations(), list[str]()

    def is_exact(disabled: Sequence[str]) -> bool:
        result = computed(model, feeds, disabled)
        return result is not None and result.tobytes() == wanted.tobytes()  # type: ignore[union-attr] # runs without any

    while not is_exact(found):
        low, high = 0, len(names)
        assert is_exact([*found, *names]), "no optimisation with a name of a class"
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_exact([*found, *names[:middle]]) else (middle, high)
        found.append(names[low])
    return {name for name in found if not is_exact([other for other in found if other != name])}


def test_the_list_of_inexact_optimisations_is_complete() -> None:
    found: dict[str, set[str]] = {}
    for operator, given in _USES:
        for kind in (np.uint8, np.int8):
            for name in culprits(*quantised(operator, kind, **given)):
                found.setdefault(name, set()).add(operator)
    assert {*found} <= {*INEXACT, INTEGERS}, found
    assert "WeightBiasQuantization" in found


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(("operator", "given"), _USES, ids=lambda value: value if isinstance(value, str) else "")
def test_results_are_within_a_step_of_those_without_optimisation(
    operator: str, given: Mapping[str, Any], kind: type[np.generic]
) -> None:
    model, feeds = quantised(operator, kind, **given)
    got, wanted = computed(model, feeds, INEXACT), computed(model, feeds, None)
    assert got is not None
    assert wanted is not None
    np.testing.assert_allclose(got, wanted, 0, 1.001 * _STEP)
    integers = computed(model, feeds, [*INEXACT, INTEGERS])
    assert integers is not None
    np.testing.assert_array_equal(integers, wanted)
