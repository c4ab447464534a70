"""A model repository for tests of the protocol's clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from nnhal.arrays import Array
from nnhal.inference.datatypes import DATATYPES
from tests.support.repositories import onnx_file, write

LABELS = ("cat", "dog", "bird", "fish")
POWERS = 300
"""How often ``powers`` multiplies its input with itself, which takes long if the input is large."""
_ELEMENT_TYPES = {
    **{name: getattr(TensorProto, name) for name in DATATYPES if name.startswith(("BOOL", "INT", "UINT"))},
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}


def write_models(repository: Path) -> Path:
    """``echo_…`` of every datatype (y = x, [n, 4]), ``tanh`` in batches, ``pair`` with two inputs and outputs,
    ``classes`` with labels, and ``powers`` of a matrix.
    """
    for datatype in DATATYPES:
        write(repository, echo(datatype), {"1/model.onnx": identity_file(datatype)})
    write(repository, "tanh", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 8 dynamic_batching {}"})
    pair = _pair_file()
    config = "version_policy { all {} }"
    write(repository, "pair", {"1/model.onnx": pair, "3/model.onnx": pair, "config.pbtxt": config})
    labelled = 'max_batch_size: 4 output { name: "y" data_type: TYPE_FP32 dims: 4 label_filename: "labels.txt" }'
    files: dict[str, bytes | str]
    files = {"1/model.onnx": onnx_file("Relu", ("n", 4)), "config.pbtxt": labelled, "labels.txt": "\n".join(LABELS)}
    write(repository, "classes", files)
    write(repository, "powers", {"1/model.onnx": _powers_file()})
    return repository


def echo(datatype: str) -> str:
    return f"echo_{datatype.lower()}"


def identity_file(datatype: str) -> bytes:
    """Return the model ``y = x`` of shape [n, 4]."""
    code = _ELEMENT_TYPES[datatype]
    value = helper.make_tensor_value_info
    return _file(
        [helper.make_node("Identity", ["x"], ["y"])], [value("x", code, ["n", 4])], [value("y", code, ["n", 4])]
    )


def sample(datatype: str, rows: int = 2) -> Array:
    """Return values that only an exact copy preserves: extremes, and NaN."""
    kind = DATATYPES[datatype]
    if datatype == "BYTES":
        words = np.array([b"", b"a\0b", "käse".encode(), "\u2028".encode() * 99], object)
        return np.tile(words, (rows, 1))
    if datatype == "BOOL":
        return np.tile(np.array([True, False, True, True]), (rows, 1))
    if kind.dtype.kind in "iu":
        limits = np.iinfo(kind.dtype.name)
        return np.tile(np.array([limits.min, limits.max, 0, 1], kind.dtype), (rows, 1))
    return np.tile(np.array([-1.5, 0.0, np.inf, 2.0**-10]).astype(kind.dtype), (rows, 1))


def _pair_file() -> bytes:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])]
    inputs = [value(name, TensorProto.FLOAT, [4]) for name in ("a", "b")]
    return _file(nodes, inputs, [value(name, TensorProto.FLOAT, [4]) for name in ("sum", "difference")])


def _powers_file() -> bytes:
    nodes = [
        helper.make_node("MatMul", [f"p{number}" if number else "x", "x"], [f"p{number + 1}"])
        for number in range(POWERS)
    ]
    nodes.append(helper.make_node("Identity", [f"p{POWERS}"], ["y"]))
    value = helper.make_tensor_value_info
    square = ["n", "n"]
    return _file(nodes, [value("x", TensorProto.FLOAT, square)], [value("y", TensorProto.FLOAT, square)])


def _file(nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> bytes:
    model = helper.make_model(
        helper.make_graph(nodes, "test", inputs, outputs), opset_imports=[helper.make_opsetid("", 21)]
    )
    model.ir_version = 10
    return model.SerializeToString()
