"""Small ONNX models, run by ONNX Runtime, and by the importer and cpu_ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal.memory import MappedPool, open_pool
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Model, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal.validation import validate_model
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.onnx import import_onnx
from tests.support.models import run_on
from tests.support.rounding import tolerance_of


def onnx_model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 21,
    element_type: type[np.generic] = np.float32,
    element_types: Mapping[str, type[np.generic]] | None = None,
) -> onnx.ModelProto:
    """Return a model of nodes. An axis of an input that is a name is unknown; the shapes of outputs are inferred.

    ``element_types`` has the inputs with a type other than ``element_type``.
    """
    kinds = {name: np.dtype((element_types or {}).get(name, element_type)) for name in inputs}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kinds[name]), list(shape))
            for name, shape in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    domains = sorted({node.domain for node in nodes} - {""})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    return onnx.shape_inference.infer_shapes(model)


def joining(length: int) -> bytes:
    """A model in which y holds the strings of a with those of b at their ends."""
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.STRING, [length]) for name in "aby"]
    graph = helper.make_graph([helper.make_node("StringConcat", ["a", "b"], ["y"])], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return model.SerializeToString()


def random(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Return reproducible random float32 values."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def by_onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs that ONNX Runtime computes, with the model's nodes as they are."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, dict(inputs))]


def by_cpu_ref(imported: ImportedModel, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs that cpu_ref computes for an imported model, and its states after a run from initial ones."""
    main = imported.model.main
    given = {**{state.name: state.initial for state in imported.states}, **inputs}
    arrays = [
        np.atleast_1d(given[tensor.name]).astype(
            ELEMENT_TYPES.get(main.operands[tensor.operand].type, tensor.element_type)
        )
        for tensor in imported.all_inputs
    ]
    return run_on(CpuRef(), resolved(imported.model), *arrays)


def resolved(model: Model) -> ResolvedModel:
    """Return a validated model with its constants, including those in pools."""
    validate_model(model)
    pools = {}
    for index, memory in enumerate(model.pools):
        pool = open_pool(memory, writable=False)
        assert isinstance(pool, MappedPool)
        pools[index] = pool.view(0, pool.size)
    return ResolvedModel(model, inline_constants(model, pools))


def check(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    tolerance: float = 1e-5,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> ImportedModel:
    """Import a model and check that cpu_ref computes what ONNX Runtime does.

    ``tolerance`` is relative and absolute for floats; 8-bit integers may be off by one, a quantised value's step.
    """
    imported = import_onnx(model, shapes, extension=False)
    for got, expected in zip(by_cpu_ref(imported, inputs), by_onnxruntime(model, inputs), strict=True):
        assert got.shape == (expected.shape or (1,))
        may_step = expected.dtype in (np.int8, np.uint8)
        relative, absolute = (tolerance, tolerance) if got.dtype.kind == "f" else (0.0, float(may_step))
        if got.dtype == np.float32:
            absolute += tolerance_of(imported.model, expected)
        np.testing.assert_allclose(
            got.astype(np.float64), np.atleast_1d(expected).astype(np.float64), relative, absolute
        )
    return imported


def operations(imported: ImportedModel) -> list[str]:
    return [OperationType(operation.type).name for operation in imported.model.main.operations]


def input_types(imported: ImportedModel, operation: int) -> list[OperandType]:
    main = imported.model.main
    return [OperandType(main.operands[index].type) for index in main.operations[operation].inputs]


def values(imported: ImportedModel, operation: int, position: int) -> list[int]:
    index = imported.model.main.operations[operation].inputs[position]
    elements: list[int] = resolved(imported.model).constants[0][index].reshape(-1).tolist()
    return elements
