"""The variables of a file: what they are before its first run, and where their values are while it is imported.

A variable that is read before it is assigned is a state of the model. One that nothing assigns is a constant, and one
that is assigned before it is read is just a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from tflite import CallOnceOptions

from nnhal.arrays import Array
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.states import zeros
from nnhal_frontends.tflite.graph import TfliteGraph, TfliteOperator
from nnhal_frontends.tflite.tensors import ELEMENTS, element_type, quantization_of, values_of

VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"


@dataclass(slots=True)
class Variables:
    """The variables of main, by the name that all handles of one share."""

    handles: Mapping[int, str] = field(default_factory=dict)
    """The variable of each handle: a tensor of main."""
    assigned: frozenset[str] = frozenset()
    """Those that main assigns."""
    initial: dict[str, Array] = field(default_factory=dict)
    """What they are before the first run, as the file's subgraphs for that say."""
    operands: dict[str, int] = field(default_factory=dict)
    """The operands of their values at this point of the import."""
    before: dict[str, int] = field(default_factory=dict)
    """The operands of those that are read before they are assigned, and are assigned then."""

    @classmethod
    def of(cls, graphs: Sequence[TfliteGraph], room: int) -> Variables:
        """Find the variables of a file, whose values take ``room`` bytes at the most.

        Raises UnsupportedNode if what they begin with cannot be computed, InvalidModel if the file is malformed.
        """
        main = graphs[0]
        handles = _handles(main)
        used = [_of(op, handles) for op in main.operators if op.op_type == ASSIGN_VARIABLE]
        found = cls(handles, frozenset(used))
        touched = False
        for operator in main.operators:
            touched |= operator.op_type in (READ_VARIABLE, ASSIGN_VARIABLE)
            if operator.op_type == CALL_ONCE:
                if touched:
                    raise operator.unsupported("variables are used before it", "initialisation before all uses")
                found.initial.update(_initialised(graphs, operator, room))
        return found

    def of_handle(self, operator: TfliteOperator) -> str:
        """The variable whose handle is an operator's first input. Raises UnsupportedNode if there is none."""
        return _of(operator, self.handles)

    def begin(self, operator: TfliteOperator, name: str) -> Array:
        """Return what a variable is before the first run. Raises UnsupportedNode if nothing says that."""
        if name not in self.initial:
            raise operator.unsupported(f"variable '{name}' is read before it has a value", "an initial value")
        return self.initial[name]


def _handles(graph: TfliteGraph) -> dict[int, str]:
    return {op.outputs[0]: op.text for op in graph.operators if op.op_type == VAR_HANDLE and op.outputs}


def _of(operator: TfliteOperator, handles: Mapping[int, str]) -> str:
    handle = operator.inputs[0] if operator.inputs else None
    if handle is None or handle not in handles:
        raise operator.unsupported("its first input is no handle of a variable", "the result of a VAR_HANDLE")
    return handles[handle]


def _initialised(graphs: Sequence[TfliteGraph], call: TfliteOperator, room: int) -> dict[str, Array]:
    """The values that a subgraph assigns, which runs once."""
    number = call.options_as(CallOnceOptions).InitSubgraphIndex
    if not 0 < number < len(graphs):
        raise InvalidModel(f"operator '{call.name}' refers to subgraph {number}, the file has {len(graphs)} subgraphs")
    graph = graphs[number]
    handles, found = _handles(graph), dict[str, Array]()
    values: dict[int, Array] = {}
    for operator in graph.operators:
        if operator.op_type == VAR_HANDLE:
            continue
        if operator.op_type == ASSIGN_VARIABLE:
            found[_of(operator, handles)] = _value(graph, operator, 1, values)
        elif operator.op_type == READ_VARIABLE:
            name = _of(operator, handles)
            if name not in found:
                raise operator.unsupported(f"variable '{name}' is read before it has a value", "an initial value")
            values[operator.outputs[0]] = found[name]
        else:
            values[operator.outputs[0]] = _computed(graph, operator, values, room)
    return found


def _value(graph: TfliteGraph, operator: TfliteOperator, position: int, values: Mapping[int, Array]) -> Array:
    index = operator.inputs[position] if position < len(operator.inputs) else None
    if index is None:
        raise operator.unsupported(f"input {position} is left out")
    if index in values:
        return values[index]
    tensor = graph.tensors[index]
    try:
        if tensor.data is not None:
            return values_of(tensor)
    except ValueError as error:
        raise operator.unsupported(str(error)) from error
    raise operator.unsupported(f"'{tensor.name}' is not known when variables are initialised", "constants")


def _computed(graph: TfliteGraph, operator: TfliteOperator, values: Mapping[int, Array], room: int) -> Array:
    compute = _COMPUTED.get(operator.op_type)
    if compute is None or not operator.outputs:
        supported = ", ".join(sorted((*_COMPUTED, ASSIGN_VARIABLE, READ_VARIABLE, VAR_HANDLE)))
        raise operator.unsupported("it initialises variables", supported)
    target = graph.tensors[operator.outputs[0]]
    if target.code not in ELEMENTS:
        raise operator.unsupported(f"elements of type {target.code}", "types of the NN HAL")
    given = [_value(graph, operator, position, values) for position in range(len(operator.inputs))]
    if sum(array.size for array in given) * _WIDEST > room:
        raise operator.unsupported("its values take too much memory", f"{room} bytes at the most")
    if quantization_of(target) is not None:
        raise operator.unsupported("quantised values that are computed", "constants")
    try:
        with np.errstate(all="ignore"):
            found = compute(given)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise operator.unsupported("its inputs do not fit one another") from error
    if prod(found.shape) * _WIDEST > room:
        raise operator.unsupported(f"a value of {prod(found.shape)} elements", f"{room} bytes at the most")
    return found.astype(element_type(target).numpy, copy=False)


def _integers(array: Array) -> list[int]:
    return [int(number) for number in array.reshape(-1)]


_WIDEST = 8
"""Bytes of the largest element."""
_COMPUTED: dict[str, Callable[[Sequence[Array]], Array]] = {
    "ADD": lambda given: given[0] + given[1],
    "BROADCAST_TO": lambda given: np.broadcast_to(given[0], _integers(given[1])),
    "CAST": lambda given: given[0],
    "FILL": lambda given: np.broadcast_to(given[1].reshape(()), _integers(given[0])),
    "MUL": lambda given: given[0] * given[1],
    "NEG": lambda given: -given[0],
    "RESHAPE": lambda given: given[0].reshape(_integers(given[1])),
    "SUB": lambda given: given[0] - given[1],
    "TRANSPOSE": lambda given: np.transpose(given[0], _integers(given[1])),
    "ZEROS_LIKE": lambda given: zeros(given[0].shape, given[0].dtype),
}
"""What subgraphs may compute that initialise variables, by operator."""
