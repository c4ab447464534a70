"""Inputs for which kernels of LiteRT have no result and do not say so.

They read memory that is not theirs, leave that of a result as it was, or end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnhal.arrays import Array

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

_CODE_BYTES = 2
"""Most bytes of an element that is a code of a quantised value."""
_SHOWN = 6
"""Elements of a value in a message."""


class _Input(NamedTuple):
    """An input of an operator."""

    shape: list[int]
    element: np.dtype[Any]
    values: Array | None
    """Its elements, if the gap depends on them."""

    @property
    def numbers(self) -> list[int]:
        """The elements, in order."""
        return [] if self.values is None else self.values.reshape(-1).tolist()

    def __str__(self) -> str:
        return str(self.shape if self.values is None else self.numbers[:_SHOWN])


class _Slices(NamedTuple):
    """The options of a STRIDED_SLICE: bit i of a mask is that of entry i."""

    shrink: int
    begin: int
    ellipsis: int
    added: int
    is_offset: bool


@dataclass(frozen=True, slots=True)
class _Gap:
    """A condition on which an operator has no result."""

    fails: Callable[[Sequence[_Input], _Slices], bool]
    values: tuple[int, ...] = ()
    """The inputs whose elements it depends on."""
    ends_process: bool = False
    """The process ends; else there is a result, of unknown elements."""


def _shrunk_outside(inputs: Sequence[_Input], options: _Slices) -> bool:
    """Return whether a STRIDED_SLICE takes the place of a shrunk axis, or a range by offsets, behind the axis' end."""
    shape, (begins, ends, strides) = inputs[0].shape, (each.numbers for each in inputs[1:])
    named = sum(not (options.ellipsis | options.added) >> entry & 1 for entry in range(len(begins)))
    axis = 0
    for entry, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=False)):
        if options.ellipsis >> entry & 1:
            axis += len(shape) - named
        elif not options.added >> entry & 1:
            first = 0 if options.begin >> entry & 1 else max(0, begin + shape[axis] * (begin < 0))
            if options.shrink >> entry & 1:
                if stride < 0 or first >= shape[axis]:
                    return True
            elif options.is_offset and first + end > shape[axis]:
                return True
            axis += 1
    return False


def _overflows(inputs: Sequence[_Input], _: _Slices) -> bool:
    """Return whether a remainder of integers has the least one divided by -1, at which processors trap."""
    dividend, divisor = (each.values for each in inputs)
    if dividend is None or divisor is None or dividend.dtype.kind != "i":
        return False
    return bool(np.any((dividend == np.iinfo(dividend.dtype).min) & (divisor == -1)))


def _negative(inputs: Sequence[_Input], _: _Slices) -> bool:
    return any(number < 0 for each in inputs for number in each.numbers)


def _not_broadcast(inputs: Sequence[_Input], _: _Slices) -> bool:
    pairs = zip(*(reversed(each.numbers) for each in inputs), strict=False)
    return any(1 not in pair and pair[0] != pair[1] for pair in pairs) or _negative(inputs, _)


def _other_diagonal(inputs: Sequence[_Input], _: _Slices) -> bool:
    *batch, rows, columns = inputs[0].shape
    return inputs[1].shape != [*batch, min(rows, columns)]


def _repeats(inputs: Sequence[_Input], _: _Slices) -> bool:
    order = inputs[1].numbers
    return len({axis % len(order) for axis in order}) < len(order)


def _no_codes(inputs: Sequence[_Input], _: _Slices) -> bool:
    return inputs[0].element.itemsize <= _CODE_BYTES and 0 in inputs[0].shape


_DIFFERENT = _Gap(lambda inputs, _: inputs[0].shape != inputs[1].shape)
_EMPTY_ROWS = _Gap(lambda inputs, _: 0 in inputs[0].shape[1:], ends_process=True)
_GAPS = {
    "ATAN2": _DIFFERENT,
    "BROADCAST_ARGS": _Gap(_not_broadcast, (0, 1), ends_process=True),
    "FLOOR_MOD": _Gap(_overflows, (0, 1), ends_process=True),
    "LOG_SOFTMAX": _EMPTY_ROWS,
    "MATRIX_SET_DIAG": _Gap(_other_diagonal),
    "RANDOM_STANDARD_NORMAL": _Gap(_negative, (0,), ends_process=True),
    "RANDOM_UNIFORM": _Gap(_negative, (0,), ends_process=True),
    "REDUCE_PROD": _Gap(_no_codes),
    "RESIZE_BILINEAR": _EMPTY_ROWS,
    "REVERSE_SEQUENCE": _Gap(lambda inputs, _: 0 in inputs[0].shape, ends_process=True),
    "REVERSE_V2": _EMPTY_ROWS,
    "SOFTMAX": _EMPTY_ROWS,
    "STABLEHLO_SHIFT_LEFT": _DIFFERENT,
    "STRIDED_SLICE": _Gap(_shrunk_outside, (1, 2, 3)),
    "SUM": _Gap(_no_codes),
    "TOPK_V2": _Gap(lambda inputs, _: _negative(inputs[1:], _), (1,)),
    "TRANSPOSE": _Gap(_repeats, (1,)),
}
_UNSCALED = {
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"), ("INT8", "UINT8")),
    **dict.fromkeys(("ADD", "SQUARED_DIFFERENCE"), ("INT8", "UINT8")),
    **dict.fromkeys(("LOG", "RSQRT", "SQRT"), ("INT16",)),
    "SUB": ("INT8", "INT16", "UINT8"),
}
"""Types whose elements these operators take for codes of quantised values. Without a scale, the process ends."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """An operator of a message that has a gap."""

    name: str
    inputs: list[int]
    subgraph: int
    options: _Slices

    @property
    def gap(self) -> _Gap:
        return _GAPS[self.name]


class Gaps:
    """The operators of a message that have gaps, in all of its subgraphs."""

    def __init__(self, content: bytes) -> None:
        """Read a message, which LiteRT has found well-formed. Raises ValueError for codes without a scale."""
        # As LiteRT, it takes a while to load.
        from tflite import BuiltinOperator, Model, TensorType

        model = Model.GetRootAs(content, 0)
        names = {getattr(BuiltinOperator, name): name for name in _GAPS}
        unscaled = {getattr(BuiltinOperator, name): name for name in _UNSCALED}
        types = {number: name for name, number in vars(TensorType).items()}
        depthwise = BuiltinOperator.DEPTHWISE_CONV_2D
        codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
        numbers = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]
        self.needs_reference_kernels = False
        """True if an optimised kernel reads a bias that there is not."""
        self._at_once: list[_Watched] = []
        self._before: list[_Watched] = []
        self._after: list[_Watched] = []
        self._unchecked: list[_Watched] = []
        for index, graph in enumerate(map(model.Subgraphs, range(model.SubgraphsLength()))):
            found = []
            for operator in map(graph.Operators, range(graph.OperatorsLength())):
                number = numbers[operator.OpcodeIndex()]
                if number in unscaled and operator.InputsLength():
                    tensor = graph.Tensors(operator.Inputs(0))
                    element, scales = types.get(tensor.Type()), tensor.Quantization()
                    if element in _UNSCALED[unscaled[number]] and not (scales and scales.ScaleLength()):
                        raise ValueError(f"{unscaled[number]} takes {element} only with a scale")
                self.needs_reference_kernels |= number == depthwise and operator.InputsLength() == 2
                if number in names:
                    inputs = [operator.Inputs(place) for place in range(operator.InputsLength())]
                    found.append(_Watched(names[number], inputs, index, _slices(operator)))
            watched = [
                each for each in found if each.name != "STRIDED_SLICE" or each.options.shrink or each.options.is_offset
            ]
            read = {tensor for each in watched for tensor in each.inputs if tensor >= 0}
            constants = {tensor for tensor in read if model.Buffers(graph.Tensors(tensor).Buffer()).DataLength()}
            given = {graph.Inputs(place) for place in range(graph.InputsLength())} | constants
            for each in watched:
                self._watch(each, constants, given)

    def _watch(self, operator: _Watched, constants: set[int], given: set[int]) -> None:
        read = {operator.inputs[place] for place in operator.gap.values}
        if operator.subgraph or operator.gap.ends_process or given.issuperset(operator.inputs):
            if constants.issuperset(read):
                self._at_once.append(operator)
            elif operator.subgraph:
                self._unchecked.append(operator)
            elif given.issuperset(read):
                self._before.append(operator)
        else:  # its shapes may be known only then
            self._after.append(operator)

    @property
    def keeps_values(self) -> bool:
        """True if the interpreter has to keep the results of all operators."""
        return any(operator.gap.values for operator in self._after)

    def allocated(self, interpreter: Interpreter) -> None:
        """Check shapes and constants. Raises ValueError."""
        for operator in self._unchecked:
            if not operator.gap.ends_process:
                raise ValueError(f"it does not check the values of {operator.name}, which a subgraph computes")
        _check(interpreter, self._at_once)

    def before(self, interpreter: Interpreter) -> None:
        """Check the inputs that a run has been given. Raises ValueError."""
        _check(interpreter, self._before)

    def after(self, interpreter: Interpreter) -> None:
        """Check what operators have made of one another's results. Raises ValueError."""
        _check(interpreter, self._after)


def _check(interpreter: Interpreter, operators: Sequence[_Watched]) -> None:
    for operator in operators:
        inputs = [
            _input(interpreter, tensor, operator.subgraph, place in operator.gap.values)
            for place, tensor in enumerate(operator.inputs)
        ]
        if operator.gap.fails(inputs, operator.options):
            raise ValueError(f"it has no result for {operator.name} of {' and '.join(map(str, inputs))}")


def _input(interpreter: Interpreter, tensor: int, subgraph: int, with_values: bool) -> _Input:
    detail = interpreter._get_tensor_details(tensor, subgraph)
    shape, element = detail["shape"].tolist(), np.dtype(detail["dtype"])
    if not with_values:
        return _Input(shape, element, None)
    # It has no memory for a tensor without elements, and refuses it.
    return _Input(shape, element, np.empty(shape, element) if 0 in shape else interpreter.get_tensor(tensor, subgraph))


def _slices(operator: Any) -> _Slices:
    """Return the options of a STRIDED_SLICE; without any for another operator."""
    from tflite import BuiltinOptions, StridedSliceOptions

    table = operator.BuiltinOptions()
    if table is None or operator.BuiltinOptionsType() != BuiltinOptions.StridedSliceOptions:
        return _Slices(0, 0, 0, 0, False)
    options = StridedSliceOptions()
    options.Init(table.Bytes, table.Pos)
    return _Slices(
        options.ShrinkAxisMask(), options.BeginMask(), options.EllipsisMask(), options.NewAxisMask(), options.Offset()
    )
