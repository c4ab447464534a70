"""Models whose tensors clients see in another form than the model, as a repository has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.onnx_models import onnx_model
from tests.support.repositories import write

SCALAR, VECTOR, FLAT, OPEN, BATCH_ONLY, CLASSIFIER, SEQUENCE, JOINED, UNTYPED, NARROW = (
    "scalar",
    "vector",
    "flat",
    "open",
    "batch_only",
    "classifier",
    "sequence",
    "joined",
    "untyped",
    "narrow",
)


def scaled() -> bytes:
    """``y`` is ``x`` times the scalar ``s``, and the scalar ``total`` is its sum."""
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"]), helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0)]
    return onnx_model(nodes, {"x": (1, 4), "s": ()}, ["y", "total"]).SerializeToString()


def negated(shape: tuple[str | int, ...]) -> bytes:
    """``y`` is ``-x``."""
    return onnx_model([helper.make_node("Neg", ["x"], ["y"])], {"x": shape}, ["y"]).SerializeToString()


def doubled() -> bytes:
    """``y`` is ``-x``, and ``large`` is ``|x|``, of any two axes."""
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["large"])]
    return onnx_model(nodes, {"x": ("n", "m")}, ["y", "large"]).SerializeToString()


def joined() -> bytes:
    """``y`` is ``past`` and then ``x``, of shape [1, n, 3] each; ``same`` is ``-past``, empty if that is."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["y"], axis=1),
        helper.make_node("Neg", ["past"], ["same"]),
    ]
    return onnx_model(nodes, {"past": (1, "p", 3), "x": (1, "n", 3)}, ["y", "same"]).SerializeToString()


def classifier(zips: bool = True) -> onnx.ModelProto:
    """Return scikit-learn's conversion of a classifier of four numbers: a label, and a map of probabilities."""
    domain, classes = "ai.onnx.ml", ["a", "b", "c"]
    coefficients = np.arange(12, dtype=np.float32) / 12
    linear = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain=domain,
        coefficients=coefficients.tolist(),
        intercepts=[0.1, 0.2, 0.3],
        post_transform="SOFTMAX",
        classlabels_strings=classes,
    )
    zipped = helper.make_node("ZipMap", ["scores"], ["probabilities"], domain=domain, classlabels_strings=classes)
    plain = helper.make_node("Identity", ["scores"], ["probabilities"])
    probabilities = onnx.ValueInfoProto(name="probabilities")
    mapped = probabilities.type.sequence_type.elem_type.map_type
    mapped.key_type = TensorProto.STRING
    mapped.value_type.tensor_type.elem_type = TensorProto.FLOAT
    if not zips:
        probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 3])
    outputs = [helper.make_tensor_value_info("label", TensorProto.STRING, [None]), probabilities]
    graph = helper.make_graph(
        [linear, zipped if zips else plain],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])],
        outputs,
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def pieces() -> bytes:
    """``y`` is a sequence of tensors."""
    y = onnx.ValueInfoProto(name="y")
    y.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    node = helper.make_node("SplitToSequence", ["x"], ["y"], axis=0)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def untyped() -> bytes:
    """``y`` has no declared type, and none that onnx can infer: the operator is one of ONNX Runtime's own."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    node = helper.make_node("BiasGelu", ["x", "x"], ["y"], domain="com.microsoft")
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def write_shaped_models(repository: Path) -> Path:
    """Write a repository of such models; SEQUENCE and UNTYPED cannot be served."""
    write(repository, SCALAR, {"1/model.onnx": scaled()})
    scalars = 'input { name: "s" dims: [1] reshape { shape: [] } } output [{ name: "y" }, { name: "total" dims: [1] }]'
    write(repository, VECTOR, {"1/model.onnx": scaled(), "config.pbtxt": scalars})
    flat = 'input { name: "x" dims: [4] reshape { shape: [2, 2] } } output { name: "y" dims: [4, 1] %s }'
    flat %= "reshape { shape: [2, 2] }"
    write(repository, FLAT, {"1/model.onnx": negated((2, 2)), "config.pbtxt": flat})
    both = 'input { name: "x" dims: [-1, 3] reshape { shape: [1, -1, 3] } } output { name: "y" dims: [-1, 3] %s }'
    both %= "reshape { shape: [1, -1, 3] }"
    warmup = 'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: [5, 3] zero_data: true } } }'
    write(repository, OPEN, {"1/model.onnx": negated((1, "n", 3)), "config.pbtxt": f"{both} {warmup}"})
    batch = "max_batch_size: 4 " + 'input { name: "x" dims: [1] reshape { shape: [] } }'
    write(repository, BATCH_ONLY, {"1/model.onnx": negated(("n",)), "config.pbtxt": batch})
    write(repository, CLASSIFIER, {"1/model.onnx": classifier().SerializeToString()})
    narrow = 'max_batch_size: 8 input { name: "x" dims: [3] } output { name: "y" dims: [3] }'
    write(repository, NARROW, {"1/model.onnx": doubled(), "config.pbtxt": narrow})
    write_joined(repository)
    write(repository, SEQUENCE, {"1/model.onnx": pieces()})
    write(repository, UNTYPED, {"1/model.onnx": untyped()})
    return repository


def write_joined(repository: Path) -> Path:
    write(repository, JOINED, {"1/model.onnx": joined()})
    return repository
