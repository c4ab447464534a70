"""RUN of nnhal.tflite, computed by LiteRT's interpreter, which is an optional package."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError, general_failure
from nnhal.exhaustion import lack_of
from nnhal.extensions.tflite import ELEMENT_TYPES, STRING, number_of
from nnhal.extensions.values import strings_from_bytes, value_to_bytes
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import ErrorStatus, Model, Operand, Operation, Subgraph
from nnhal.types.layout import ELEMENT_TYPES as BASE_TYPES
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_devices.cpu_ref.litert_gaps import Gaps
from nnhal_devices.driver import Control

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

_PACKAGE = "the package ai-edge-litert"
_INT32 = np.iinfo(np.int32)
_LACKING = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")
_PLACES = re.compile(r"\S+\.(cc|h)(:\d+)? ")
_LONGEST = 300
"""Letters of a message of LiteRT's."""


def element_type(model: Model, code: int) -> np.dtype[np.generic] | None:
    """The numpy type of an operand's elements in memory; None if its type is not one of nnhal.tflite."""
    number = number_of(model, code)
    return None if number is None else ELEMENT_TYPES.get(number, np.dtype(np.uint8))


def support_run(message: Array | None, graph: Subgraph, operation: Operation) -> Support:
    """Return whether LiteRT supports an operation. ``message`` is its first input, None if that is no constant."""
    if message is None:
        return Unsupported("OP", "a first input that is no constant MESSAGE", "a message")
    try:
        runner = _Runner(message)
    except ImportError:
        return Unsupported("NO_IMPL", "an operation of nnhal.tflite", f"one that {_PACKAGE} runs, if it is installed")
    except (RuntimeError, ValueError) as error:
        return Unsupported("OP", _in_words(error), "operators that LiteRT has, with operands that it takes")
    if variables := _variables(message):
        return Unsupported("OP", f"a message with {variables}", "one without, which would keep values from run to run")
    if difference := runner.difference(graph, operation):
        return Unsupported("SHAPE", difference, "operands like those of the message's model")
    return SUPPORTED


class LiteRtOperation:
    """An operation with its interpreters: as many as have run it at a time, since each runs once at a time."""

    def __init__(self, model: Model, message: Array, outputs: Sequence[Operand], place: str) -> None:
        self._message = message
        self._place = place
        self._numbers = [number_of(model, operand.type) for operand in outputs]
        self._types = [
            BASE_TYPES[operand.type] if number is None else ELEMENT_TYPES.get(number, np.dtype(np.uint8))
            for operand, number in zip(outputs, self._numbers, strict=True)
        ]
        self._idle: list[_Runner] = []
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[Array | None], control: Control) -> tuple[Array, ...]:
        """Compute the outputs. Raises GENERAL_FAILURE, and as ``control`` does."""
        control.check()
        try:
            with self._borrowed() as runner:
                results = runner.run(inputs)
        except MemoryError as error:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{self._place}: {lack_of(error)}") from error
        except ImportError:
            general_failure(f"{self._place}: {_PACKAGE} is not installed")
        except (RuntimeError, ValueError) as error:
            control.check()
            general_failure(f"{self._place}: {_in_words(error)}")
        return tuple(map(self._stored, results, self._numbers, self._types))

    @contextmanager
    def _borrowed(self) -> Iterator[_Runner]:
        with self._lock:
            runner = self._idle.pop() if self._idle else None
        runner = runner or _Runner(self._message)
        yield runner
        with self._lock:  # one that has failed is not used again
            self._idle.append(runner)

    def _stored(self, result: Array, number: int | None, element: np.dtype[np.generic]) -> Array:
        """A result in the form that it has in memory."""
        if number == STRING:
            return np.frombuffer(value_to_bytes(result), np.uint8)
        if result.dtype == np.int64 and element == np.int32 and result.size:
            least, most = result.min(), result.max()
            if least < _INT32.min or most > _INT32.max:
                general_failure(f"{self._place}: a result has integers from {least} to {most}, expected 32 bits")
        return np.atleast_1d(result).astype(element, copy=False)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """An input or output of a message's model."""

    index: int
    shape: Dimensions
    """0 for a length that may change."""
    element: np.dtype[Any]

    @property
    def is_text(self) -> bool:
        return self.element.kind in "OS"


class _Runner:
    """An interpreter of a message. It runs once at a time."""

    def __init__(self, message: Array) -> None:
        """Raises ImportError without LiteRT, ValueError or RuntimeError if LiteRT refuses the message."""
        # Models without the extension need no LiteRT, and it takes a while to load.
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        content = message.tobytes()

        def make(kernels: OpResolverType, keeps_values: bool = False) -> Interpreter:
            return Interpreter(
                model_content=content,
                experimental_op_resolver_type=kernels,
                num_threads=1,
                experimental_preserve_all_tensors=keeps_values,
            )

        # The delegate that is used by default prepares weights anew, and refuses to resize some models.
        kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = make(kernels)
        self._gaps = Gaps(content)
        if self._gaps.needs_reference_kernels:
            kernels = OpResolverType.BUILTIN_REF
        if self._gaps.needs_reference_kernels or self._gaps.keeps_values:
            interpreter = make(kernels, self._gaps.keeps_values)
        self._interpreter = interpreter
        self._allocate()
        given = interpreter.get_input_details()
        self._inputs = [_tensor(detail) for detail in given]
        self._outputs = [_tensor(detail) for detail in interpreter.get_output_details()]
        self._shapes = [tuple(detail["shape"].tolist()) for detail in given]

    def difference(self, graph: Subgraph, operation: Operation) -> str:
        """Say how the operands of an operation contradict the message; empty if they do not."""
        given, made = operation.inputs[1:], operation.outputs
        numbers, expected = (len(given), len(made)), (len(self._inputs), len(self._outputs))
        if numbers != expected:
            got, allowed = (f"{inputs} inputs and {outputs} outputs" for inputs, outputs in (numbers, expected))
            return f"{got}, for which the message has {allowed}"
        for number, (operand, tensor) in enumerate(zip(given, self._inputs, strict=True)):
            dimensions = graph.operands[operand].dimensions
            if not tensor.is_text and combine(dimensions, tensor.shape or (1,)) is None:
                got = f"input {number} of {describe(dimensions)}"
                return f"{got}, for which the message has {describe(tensor.shape)}"
        return ""

    def run(self, inputs: Sequence[Array | None]) -> list[Array]:
        """Compute the outputs from the inputs in the form that they have in memory."""
        interpreter = self._interpreter
        given = [_given(tensor, array) for tensor, array in zip(self._inputs, inputs, strict=True)]
        shapes = [array.shape for array in given]
        if shapes != self._shapes:
            for tensor, shape in zip(self._inputs, shapes, strict=True):
                interpreter.resize_tensor_input(tensor.index, shape)
            self._allocate()
            self._shapes = shapes
        for tensor, array in zip(self._inputs, given, strict=True):
            interpreter.set_tensor(tensor.index, array)
        self._gaps.before(interpreter)
        interpreter.invoke()
        self._gaps.after(interpreter)
        return [self._result(number, tensor) for number, tensor in enumerate(self._outputs)]

    def _allocate(self) -> None:
        """Make room for tensors. Raises ValueError if a kernel would fail without a word."""
        self._interpreter.allocate_tensors()
        self._gaps.allocated(self._interpreter)

    def _result(self, number: int, tensor: _Tensor) -> Array:
        try:
            return np.asarray(self._interpreter.get_tensor(tensor.index))
        except ValueError:  # it has no memory for a tensor without elements, and refuses it
            shape = self._interpreter.get_output_details()[number]["shape"]
            if 0 not in shape:
                raise
            return np.empty(shape, tensor.element)


def _variables(message: Array) -> str:
    """Say which variables a message has, which LiteRT has found well-formed; empty if it has none.

    Interpreters are shared by all executions, and so would be their variables.
    """
    # As LiteRT, it takes a while to load.
    from tflite import BuiltinOperator, Model

    content = Model.GetRootAs(message.data, 0)
    codes = (content.OperatorCodes(index) for index in range(content.OperatorCodesLength()))
    if any(code.BuiltinCode() == BuiltinOperator.VAR_HANDLE for code in codes):
        return "variables"
    for subgraph in map(content.Subgraphs, range(content.SubgraphsLength())):
        for tensor in map(subgraph.Tensors, range(subgraph.TensorsLength())):
            if tensor.IsVariable():
                return "a variable tensor"
    return ""


def _tensor(detail: dict[str, Any]) -> _Tensor:
    signature = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    shape = tuple(max(0, int(length)) for length in signature)
    return _Tensor(detail["index"], shape, np.dtype(detail["dtype"]))


def _given(tensor: _Tensor, array: Array | None) -> Array:
    """An input in the form that the message declares. Raises ValueError."""
    if array is None:
        raise ValueError("an input is omitted, expected a value")
    if tensor.is_text:
        text = strings_from_bytes(array)
        # Of arrays of objects it takes only those with axes.
        return text if tensor.shape or text.size != 1 else np.array(text.item())
    same_bytes = array.dtype.itemsize == tensor.element.itemsize and tensor.element.kind not in "b"
    given = array.view(tensor.element) if same_bytes else array.astype(tensor.element)
    return given.reshape(()) if not tensor.shape and given.shape == (1,) else given


def _in_words(error: Exception) -> str:
    """Return what LiteRT says, in one line: without the places in its sources, and without its advice."""
    text = str(error)
    lacking = _LACKING.search(text)
    if lacking:
        return f"LiteRT has no kernel for {lacking[1]} of version {lacking[2]}"
    told = " ".join(_PLACES.sub("", text).replace("Node number", " Node number").split())[:_LONGEST]
    return f"LiteRT: {told or 'no reason given, as if there were too little memory'}"
