"""Inputs and outputs of a model that are its state: what an output has after a run, an input has before the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import Dimensions, combine, describe, is_extension
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.imported import ImportedModel, ImportedState, ImportedTensor


@dataclass(frozen=True, slots=True, eq=False)
class StatePair:
    """An input and an output that are one state. Before the first run it is ``initial``, or zeros if that is None.

    ``dimensions`` are those of the zeros that the model leaves open; those that are unknown to both are 1. An axis that
    is ``growing`` begins with its length in these, which may be 0, and each run may lengthen it up to a limit, if there
    is one.
    """

    input: str
    output: str
    initial: Array | None = None
    dimensions: Dimensions = ()
    growing: Mapping[int, int | None] = field(default_factory=dict)

    def opened(self, dimensions: Dimensions) -> Dimensions:
        """Dimensions in which the axes that grow are open."""
        return tuple(0 if axis in self.growing else length for axis, length in enumerate(dimensions))

    def largest(self, dimensions: Dimensions) -> Dimensions:
        """The most that dimensions may become, 0 for an axis without a limit; empty if none grows."""
        return tuple(self.growing.get(n, length) or 0 for n, length in enumerate(dimensions)) if self.growing else ()


def with_states(imported: ImportedModel, pairs: Sequence[StatePair]) -> ImportedModel:
    """Return the model with some of its inputs and outputs as states, which users see no longer.

    Raises InvalidModel if an input or output is unknown or named twice, or if the two of a state differ.
    """
    inputs = {tensor.name: tensor for tensor in imported.inputs}
    outputs = {tensor.name: tensor for tensor in imported.outputs}
    states = [*imported.states]
    known = {(state.before.name, state.after.name): number for number, state in enumerate(states)}
    for pair in pairs:
        number = known.get((pair.input, pair.output))
        if number is not None:  # the file has it as a state already
            if pair.initial is not None or pair.growing:
                states[number] = _state(imported, states[number].before, states[number].after, pair)
            continue
        before, after = _taken(inputs, pair.input, "input"), _taken(outputs, pair.output, "output")
        _require_alike(imported, before, after)
        states.append(_state(imported, before, after, pair))
    rest, results = tuple(inputs.values()), tuple(outputs.values())
    if not results:
        raise InvalidModel("all outputs are states, expected one at least that is a result")
    operands = list(imported.model.main.operands)
    for state in states:  # what the model computes has the dimensions of what it begins with
        ends = state.before.operand, state.after.operand
        codes = [operands[end].type for end in ends]
        code = codes[0] if is_extension(codes[1]) else codes[1]
        for end in ends:
            operands[end] = replace(operands[end], type=code, dimensions=state.dimensions)
    main = replace(
        imported.model.main,
        operands=tuple(operands),
        input_indexes=tuple(t.operand for t in (*rest, *(state.before for state in states))),
        output_indexes=tuple(t.operand for t in (*results, *(state.after for state in states))),
    )
    return replace(
        imported, model=replace(imported.model, main=main), inputs=rest, outputs=results, states=tuple(states)
    )


def _state(imported: ImportedModel, before: ImportedTensor, after: ImportedTensor, pair: StatePair) -> ImportedState:
    initial = _initial(imported, before, pair)
    return ImportedState(before, after, initial, pair.opened(initial.shape), pair.largest(initial.shape))


def _taken(tensors: dict[str, ImportedTensor], name: str, what: str) -> ImportedTensor:
    if name not in tensors:
        raise InvalidModel(f"a state has the {what} '{name}', expected one of {sorted(tensors)}, each once")
    return tensors.pop(name)


def _require_alike(imported: ImportedModel, before: ImportedTensor, after: ImportedTensor) -> None:
    operands = imported.model.main.operands
    one, other = operands[before.operand], operands[after.operand]
    where = f"the state of input '{before.name}' and output '{after.name}'"
    # Tensors of numbers have a type of the extension if their dimensions are unknown, which those of states are not.
    same_type = one.type == other.type or is_extension(one.type) != is_extension(other.type)
    same_scale = (one.scale, one.zero_point) == (other.scale, other.zero_point)
    if before.element_type != after.element_type or not (same_type and same_scale):
        got = f"{before.element_type.name} and {after.element_type.name}"
        raise InvalidModel(f"{where} has elements of {got}, expected one type and one quantisation")
    if before.element_type.hasobject:
        raise InvalidModel(f"{where} has no numbers, expected a tensor of numbers")
    if combine(one.dimensions, other.dimensions) is None:
        got = f"{describe(one.dimensions)} and {describe(other.dimensions)}"
        raise InvalidModel(f"{where} has dimensions {got}, expected dimensions that agree")


def settled(imported: ImportedModel, pairs: Sequence[StatePair]) -> list[StatePair]:
    """The states with all of their dimensions: those that neither they nor the model say are 1, as in Triton."""
    inputs = {tensor.name: tensor for tensor in imported.all_inputs}
    found = []
    for pair in pairs:
        known = pair.dimensions if pair.initial is None else pair.initial.shape
        if pair.input in inputs:
            declared = imported.model.main.operands[inputs[pair.input].operand].dimensions
            known = combine(declared, pair.opened(known)) or known
        found.append(
            replace(pair, dimensions=tuple(n or int(axis not in pair.growing) for axis, n in enumerate(known)))
        )
    return found


def is_settled(imported: ImportedModel, pairs: Sequence[StatePair]) -> bool:
    """Return whether the model says all dimensions of what is to be state but for the axes that grow."""
    named = {name: pair for pair in pairs for name in (pair.input, pair.output)}
    operands = imported.model.main.operands
    tensors = (*imported.all_inputs, *imported.all_outputs)
    return not any(
        length == 0 and axis not in named[tensor.name].growing
        for tensor in tensors
        if tensor.name in named
        for axis, length in enumerate(operands[tensor.operand].dimensions or (0,))
    )


def _initial(imported: ImportedModel, tensor: ImportedTensor, pair: StatePair) -> Array:
    declared = imported.model.main.operands[tensor.operand].dimensions
    wanted = pair.dimensions if pair.initial is None else pair.initial.shape or (1,)
    fixed = [axis for axis in pair.growing if axis >= len(wanted) or (declared and declared[axis : axis + 1] != (0,))]
    if fixed:
        raise InvalidModel(
            f"the state of input '{tensor.name}' grows along axes {fixed}, the model has {describe(declared)}: "
            "expected axes whose length it leaves open"
        )
    known = combine(declared, pair.opened(wanted))
    if known is None:
        raise InvalidModel(
            f"the state of input '{tensor.name}' begins with dimensions {describe(wanted)}, the model has "
            f"{describe(declared)}"
        )
    if pair.initial is None:
        known = tuple(wanted[axis] if axis in pair.growing else length or 1 for axis, length in enumerate(known))
        return zeros(known, tensor.element_type)
    if pair.initial.dtype != tensor.element_type:
        raise InvalidModel(
            f"the state of input '{tensor.name}' begins with {pair.initial.dtype.name}, the model has "
            f"{tensor.element_type.name}"
        )
    return pair.initial.reshape(pair.initial.shape if pair.growing else known)


def zeros(shape: Sequence[int], element_type: np.dtype[np.generic], value: int = 0) -> Array:
    """An array that has ``value`` everywhere, and takes no memory."""
    return np.broadcast_to(np.array(value, element_type), tuple(shape))


def given_dimensions(pairs: Sequence[StatePair]) -> Mapping[str, Dimensions]:
    """The dimensions of states that are all known, by input: the model is imported for these."""
    found = {pair: pair.dimensions if pair.initial is None else pair.initial.shape for pair in pairs}
    return {
        pair.input: pair.opened(dimensions)
        for pair, dimensions in found.items()
        if dimensions and all(length or axis in pair.growing for axis, length in enumerate(dimensions))
    }
