"""A model in ONNX whose weights lie in another file, and what it computes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from tests.support.onnx_models import onnx_model

LOCATION = "weights.bin"
SIDE = 96
"""Rows and columns of a matrix: 36 KiB, which is more than a message holds."""
START = 4096


def matrices(count: int = 2) -> list[Array]:
    return [np.random.default_rng(seed).standard_normal((SIDE, SIDE), np.float32) for seed in range(count)]


def elsewhere(name: str, values: Array, offset: int, location: str = LOCATION) -> onnx.TensorProto:
    tensor = TensorProto(
        name=name,
        data_type=helper.np_dtype_to_tensor_dtype(values.dtype),
        dims=values.shape,
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(values.nbytes))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def layers() -> onnx.ModelProto:
    """Two products and a bias, whose values lie in a file of ``contents``."""
    first, second = matrices()
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Gemm", ["b", "second"], ["y"], transB=1),
    ]
    model = onnx_model(nodes, {"x": [1, SIDE]}, ["y"])
    places = {"first": (first, START), "second": (second, START + first.nbytes), "bias": (second[0], 0)}
    model.graph.initializer.extend(elsewhere(name, *place) for name, place in places.items())
    return model


def contents() -> bytes:
    first, second = matrices()
    return b"".join((second[0].tobytes().ljust(START, b"\0"), first.tobytes(), second.tobytes()))


def expected(x: Array) -> Array:
    first, second = matrices()
    return np.asarray((x @ first + second[0]) @ second.T)


def opened(path: Path, flags: int = os.O_RDONLY) -> Descriptor:
    return Descriptor(os.open(path, flags | os.O_CLOEXEC))


def written(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(layers().SerializeToString())
    (folder / LOCATION).write_bytes(contents())
    return path
