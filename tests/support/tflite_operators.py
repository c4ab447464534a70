"""TFLite files of one operator, run by LiteRT's interpreter, and by the importer and cpu_ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from nnhal.arrays import Array
from nnhal_frontends import import_model
from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref, operations
from tests.support.tflite_files import Options, Spec, TfliteFile, Variable

REFERENCE = OpResolverType.BUILTIN_REF
OPTIMISED = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def by_litert(content: bytes, inputs: Mapping[str, Array], resolver: OpResolverType = REFERENCE) -> list[Array]:
    """Return the outputs that LiteRT computes."""
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    for detail in interpreter.get_input_details():
        if detail["shape"].tolist() != list(np.shape(inputs[detail["name"]])):
            interpreter.resize_tensor_input(detail["index"], np.shape(inputs[detail["name"]]))
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]


def by_any_kernel(content: bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """Return LiteRT's outputs by its reference kernels if it has them for the file's operators, else by the others."""
    try:
        return by_litert(content, inputs)
    except ValueError:
        return by_litert(content, inputs, OPTIMISED)


def check(
    content: bytes,
    inputs: Mapping[str, Array],
    tolerance: float = 1e-5,
    steps: int = 1,
    optimised: bool = False,
) -> ImportedModel:
    """Import a file and check that cpu_ref's outputs are those of LiteRT's reference kernels, or optimised ones.

    Floats may differ by ``tolerance``, relatively and absolutely, quantised values by ``steps``, others not at all.
    Variables are zero.
    """
    imported = import_tflite(content)
    if imported.is_open:
        imported = import_model(content, shapes={tensor.name: inputs[tensor.name].shape for tensor in imported.inputs})
    zeros = {tensor.name: np.zeros(tensor.shape, tensor.element_type) for tensor in imported.inputs}
    results = by_cpu_ref(imported, {**zeros, **inputs})
    expected = by_litert(content, inputs, OPTIMISED) if optimised else by_any_kernel(content, inputs)
    for got, wanted, tensor in zip(results, expected, imported.outputs, strict=False):
        assert got.shape == (wanted.shape or (1,))
        assert len(tensor.shape) == wanted.ndim
        assert all(stated in (0, found) for stated, found in zip(tensor.shape, wanted.shape, strict=True))
        assert tensor.element_type == wanted.dtype
        operand = imported.model.main.operands[tensor.operand]
        allowed = tolerance if wanted.dtype.kind == "f" else steps if operand.scale else 0
        relative = tolerance if wanted.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(got.astype(np.float64), np.atleast_1d(wanted), rtol=relative, atol=allowed)
    return imported


def steps_by_litert(content: bytes, steps: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
    """Return the outputs of runs that LiteRT does one after the other, with the variables of the last one."""
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=OPTIMISED)
    interpreter.allocate_tensors()
    results = []
    for inputs in steps:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        interpreter.invoke()
        outputs = [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
        results.append(outputs)
    return results


def check_steps(content: bytes, steps: Sequence[Mapping[str, Array]], tolerance: float = 1e-5) -> ImportedModel:
    """Import a file and check that cpu_ref's outputs are LiteRT's, run after run, with the states of the last run."""
    imported = import_tflite(content)
    states = {state.name: state.initial for state in imported.states}
    for inputs, expected in zip(steps, steps_by_litert(content, steps), strict=True):
        results = by_cpu_ref(imported, {**states, **inputs})
        outputs, after = results[: len(imported.outputs)], results[len(imported.outputs) :]
        for got, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(got.astype(np.float64), np.atleast_1d(wanted), rtol=tolerance, atol=tolerance)
        states = {s.name: value.astype(s.initial.dtype) for s, value in zip(imported.states, after, strict=True)}
    return imported


Given = Spec | Array | tuple[Any, Spec] | None
"""An input of an operator: an input of the model, a constant, a constant with a spec, or an omitted one."""


@dataclass(frozen=True, slots=True)
class OneOperator:
    """A file of one operator with inputs ``x0``, ``x1`` and so on, by position, and outputs ``y0``, ``y1``."""

    code: str
    """The operator's name in the schema."""
    inputs: Sequence[Given | Variable]
    """Its inputs."""
    outputs: Sequence[Spec]
    """The declarations of its outputs."""
    options: Options | None = None
    """Its options."""
    values: Mapping[int, Any] = field(default_factory=dict)
    """Values of inputs of the model by position; others are random."""
    low: float = -2.0
    """The least random float."""
    high: float = 2.0
    """The largest random float."""
    version: int = 1
    """The operator's version."""

    def file(self) -> bytes:
        """Return the file."""
        file = TfliteFile(versions={self.code: self.version})
        inputs = [self._input(file, index) for index in range(len(self.inputs))]
        outputs = {f"y{index}": spec for index, spec in enumerate(self.outputs)}
        return file.build(*file.operator(self.code, inputs, outputs, self.options))

    def _input(self, file: TfliteFile, index: int) -> int:
        given = self.inputs[index]
        if given is None:
            return -1
        if isinstance(given, Spec):
            return file.input(f"x{index}", given)
        if isinstance(given, Variable):
            return file.variable(f"v{index}", given.spec)
        return file.constant(*given) if isinstance(given, tuple) else file.constant(given)

    def arrays(self) -> dict[str, Array]:
        """Return the inputs of the model: ``values`` by position, else reproducible random numbers."""
        return {
            f"x{index}": np.asarray(self.values[index], given.element_type)
            if index in self.values
            else self._random(given, index)
            for index, given in enumerate(self.inputs)
            if isinstance(given, Spec)
        }

    def _random(self, spec: Spec, seed: int) -> Array:
        random, element = np.random.default_rng(seed), np.dtype(spec.element_type)
        if element.kind == "c":
            real, imaginary = random.uniform(self.low, self.high, (2, *spec.shape))
            return np.asarray(real + 1j * imaginary).astype(element)
        if element.kind == "f":
            return random.uniform(self.low, self.high, spec.shape).astype(element)
        if element.itemsize > 1:
            return random.integers(-5, 6, spec.shape).astype(element)
        if element.kind == "b":
            return random.integers(0, 2, spec.shape).astype(element)
        limits = np.iinfo(element)
        return random.integers(limits.min, limits.max + 1, spec.shape).astype(element)

    def check(self, tolerance: float = 1e-5, steps: int = 1, optimised: bool = False) -> list[str]:
        """Check that cpu_ref's outputs are LiteRT's, and return the operations that the operator became."""
        return operations(check(self.file(), self.arrays(), tolerance, steps, optimised))

    def refusal(self) -> str:
        """Return why the HAL has no operations for the operator."""
        with pytest.raises(UnsupportedNode) as caught:
            import_tflite(self.file(), extension=False)
        assert caught.value.op_type == self.code
        return caught.value.reason


def one(
    code: str,
    inputs: Sequence[Given | Variable],
    outputs: Spec | Sequence[Spec],
    options: Options | None = None,
    **more: Any,
) -> OneOperator:
    """Return a file of one operator; ``more`` are further fields of OneOperator."""
    return OneOperator(code, inputs, [outputs] if isinstance(outputs, Spec) else outputs, options, **more)


def numbers(values: Any, element_type: Any = np.int32) -> Array:
    """Return integers of the type of shapes and axes."""
    return np.array(values, element_type)
