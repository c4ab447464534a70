"""Whole int8 networks, read from NNHAL_MODELS, against LiteRT."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED
from nnhal.types import OperandLifeTime, Operation, OperationType, Subgraph
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_frontends.tflite import import_tflite
from tests.support.models import run_on
from tests.support.onnx_models import resolved
from tests.support.tflite_operators import by_litert

_FOLDER = os.environ.get("NNHAL_MODELS", "")
pytestmark = pytest.mark.skipif(not _FOLDER, reason="NNHAL_MODELS names no folder of TFLite networks")

_WRITTEN = (OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT)
SMALL = ["two_conv_rfc", "ds_cnn_kws", "mobilenet_v1_0.25_96"]
LARGE = ["mobilenet_v1_1.0_224_body", "mobilenet_v1_1.0_224", "mobilenet_v2_1.0_224"]
ALL = [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]


def network(name: str) -> bytes:
    return (Path(_FOLDER) / f"{name}.tflite").read_bytes()


def image(model: ResolvedModel, seed: int) -> Array:
    """Random bytes of the shape of a model's only input."""
    (index,) = model.model.main.input_indexes
    shape = model.model.main.operands[index].dimensions
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


@pytest.mark.parametrize("name", ALL)
def test_cpu_ref_gives_the_reference_kernels_values_exactly_but_for_a_softmax(name: str) -> None:
    content = network(name)
    imported = import_tflite(content)
    model = resolved(imported.model)
    # The exponentials of cpu_ref are floats, those of LiteRT come from a table.
    steps = 1 if model.model.main.operations[-1].type == OperationType.SOFTMAX else 0
    for seed in range(2):
        x = image(model, seed)
        (expected,) = by_litert(content, {imported.inputs[0].name: x})
        (got,) = run_on(CpuRef(), model, x)
        np.testing.assert_allclose(got.astype(np.int16), expected.astype(np.int16), rtol=0, atol=steps)


@pytest.mark.parametrize("name", SMALL)
def test_cpu_acc_gives_the_reference_kernels_values_to_one_step(name: str) -> None:
    content = network(name)
    imported = import_tflite(content)
    model, driver = resolved(imported.model), CpuAcc(DriverOptions())
    assert set(driver.supported_operations(model)) == {SUPPORTED}
    for seed in range(2):
        x = image(model, seed)
        (expected,) = by_litert(content, {imported.inputs[0].name: x})
        (got,) = run_on(driver, model, x)
        np.testing.assert_allclose(got.astype(np.int16), expected.astype(np.int16), rtol=0, atol=1)


@pytest.mark.parametrize("name", ALL)
def test_each_operation_on_cpu_acc_is_within_one_step_of_cpu_ref(name: str) -> None:
    # In a deep network a difference in rounding grows from layer to layer, as it does between LiteRT's own kernels.
    model, driver = resolved(import_tflite(network(name)).model), CpuAcc(DriverOptions())
    values = {model.model.main.input_indexes[0]: image(model, 0)}
    for number, operation in enumerate(model.model.main.operations):
        alone, inputs = only(model, operation)
        arrays = [values[index] for index in inputs]
        (expected,) = run_on(CpuRef(), alone, *arrays)
        (got,) = run_on(driver, alone, *arrays)
        values[operation.outputs[0]] = expected
        difference = np.abs(got.astype(np.int16) - expected).max()
        assert difference <= 1, f"operation {number}, {OperationType(operation.type).name}"


def only(model: ResolvedModel, operation: Operation) -> tuple[ResolvedModel, list[int]]:
    """The model of one operation, and the operands of the whole model that are its inputs."""
    graph = model.model.main
    used = list(dict.fromkeys((*operation.inputs, *operation.outputs)))
    readable = (*_WRITTEN, OperandLifeTime.SUBGRAPH_INPUT)
    inputs = [i for i in used if i not in operation.outputs and graph.operands[i].lifetime in readable]
    operands = [
        replace(graph.operands[index], lifetime=OperandLifeTime.SUBGRAPH_INPUT)
        if index in inputs
        else replace(graph.operands[index], lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
        if index in operation.outputs
        else graph.operands[index]
        for index in used
    ]
    place = {index: position for position, index in enumerate(used)}
    renamed = replace(
        operation,
        inputs=tuple(place[index] for index in operation.inputs),
        outputs=tuple(place[index] for index in operation.outputs),
    )
    main = Subgraph(tuple(operands), (renamed,), tuple(place[index] for index in inputs), tuple(renamed.outputs))
    return resolved(replace(model.model, main=main)), inputs
