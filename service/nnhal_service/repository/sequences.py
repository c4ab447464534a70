"""``sequence_batching`` of a configuration: states, control inputs, and how long sequences last."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NoReturn

import numpy as np

from nnhal.arrays import Array
from nnhal.inference import model_config_pb2 as wire
from nnhal.inference.datatypes import BYTES, TensorError, array_from_raw
from nnhal_frontends import StatePair
from nnhal_service.repository.names import is_file_name
from nnhal_service.repository.parameters import most_sequences
from nnhal_service.repository.source import ModelSource
from nnhal_service.repository.tensors import UNKNOWN, Dims, ModelTensor, datatype_of, type_name
from nnhal_service.serving.config import ControlKind, SequenceControl, Sequencing
from nnhal_service.serving.errors import ErrorKind, ServingError

STATE_FOLDER = "initial_state"
_IDLE_OF_TRITON_US = 1_000_000
"""For a configuration that has sequence_batching, and no idle time in it."""
_IDLE_BY_DEFAULT_US = 60_000_000
"""For a model with a state whose configuration has no sequence_batching."""
_MOST_ELEMENTS = 1 << 26
_NS_PER_US = 1000
_WireControl = wire.ModelSequenceBatching.Control
_KINDS = {
    _WireControl.CONTROL_SEQUENCE_START: ControlKind.START,
    _WireControl.CONTROL_SEQUENCE_END: ControlKind.END,
    _WireControl.CONTROL_SEQUENCE_READY: ControlKind.READY,
    _WireControl.CONTROL_SEQUENCE_CORRID: ControlKind.CORRID,
}
_VALUES = (
    ("int32_false_true", np.dtype(np.int32)),
    ("fp32_false_true", np.dtype(np.float32)),
    ("bool_false_true", np.dtype(np.bool_)),
)
_IDENTIFIERS = (wire.TYPE_UINT64, wire.TYPE_INT64, wire.TYPE_UINT32, wire.TYPE_INT32, wire.TYPE_STRING)


def state_pairs(config: wire.ModelConfig, source: ModelSource) -> list[StatePair]:
    """Return the inputs and outputs that a configuration has as states. Raises ServingError if it contradicts itself.

    With batches the states are those of one item.
    """
    batch = (1,) if config.max_batch_size > 0 else ()
    return [_pair(state, batch, source) for state in config.sequence_batching.state]


def without_controls(config: wire.ModelConfig, inputs: Sequence[ModelTensor]) -> list[ModelTensor]:
    """Return the inputs that clients give."""
    controls = {entry.name for entry in config.sequence_batching.control_input}
    return [tensor for tensor in inputs if tensor.name not in controls]


def complete_sequences(config: wire.ModelConfig, states: Sequence[tuple[ModelTensor, str]]) -> None:
    """Complete the sequence_batching of a configuration; a model with states has one. Raises INVALID_ARGUMENT."""
    given = config.sequence_batching
    if not config.HasField("sequence_batching"):
        if not states:
            return
        names = ", ".join(repr(tensor.name) for tensor, _ in states)
        if config.HasField("dynamic_batching"):
            _refuse(
                f"the model carries {names} from request to request: expected sequence_batching, not dynamic_batching"
            )
        given.max_sequence_idle_microseconds = _IDLE_BY_DEFAULT_US
    if not given.max_sequence_idle_microseconds:
        given.max_sequence_idle_microseconds = _IDLE_OF_TRITON_US
    if given.WhichOneof("strategy_choice") is None:
        given.direct.SetInParent()
    by_input = {state.input_name: state for state in given.state}
    entries = []
    for tensor, output in states:
        entry = by_input.get(tensor.name) or wire.ModelSequenceBatching.State(input_name=tensor.name)
        if entry.data_type not in (wire.TYPE_INVALID, tensor.data_type):
            got, expected = type_name(entry.data_type), type_name(tensor.data_type)
            _refuse(f"state {tensor.name!r} has data_type {got}, expected {expected}")
        entry.output_name, entry.data_type = output, tensor.data_type
        if not entry.dims:
            entry.dims.extend((tensor.shape or ())[1 if config.max_batch_size > 0 else 0 :])
        entries.append(entry)
    del given.state[:]
    given.state.extend(entries)


def sequencing_of(config: wire.ModelConfig, inputs: Sequence[ModelTensor]) -> Sequencing | None:
    """Return how the sequences of a model with these inputs are served; None if it has none.

    Raises INVALID_ARGUMENT.
    """
    if not config.HasField("sequence_batching"):
        return None
    given, by_name = config.sequence_batching, {tensor.name: tensor for tensor in inputs}
    controls = [_control(entry, by_name) for entry in given.control_input]
    names, kinds = [c.input for c in controls], [c.kind for c in controls]
    if len(set(names)) < len(names) or len(set(kinds)) < len(kinds):
        _refuse(f"control_input has {names}, expected each input and each kind of control once")
    idle_ns = given.max_sequence_idle_microseconds * _NS_PER_US
    return Sequencing(idle_ns, most_sequences(config), tuple(controls), given.oldest.max_candidate_sequences)


def _pair(state: wire.ModelSequenceBatching.State, batch: Dims, source: ModelSource) -> StatePair:
    where = f"state {state.input_name!r}"
    if not state.input_name or not state.output_name:
        _refuse(f"a state has input_name {state.input_name!r} and output_name {state.output_name!r}, expected both")
    if len(state.initial_state) > 1:
        _refuse(f"{where} has {len(state.initial_state)} initial_states, expected one at the most")
    dims = (*batch, *(max(0, length) for length in state.dims)) if state.dims else ()
    growing: dict[int, int | None] = {}
    if state.use_growable_memory:
        growing = {axis: None for axis, length in enumerate(dims) if not length}
        if not growing:
            _refuse(
                f"{where} has use_growable_memory and dims {list(state.dims)}, expected one of them to be {UNKNOWN}"
            )
    first = tuple(length or int(axis in growing) for axis, length in enumerate(dims))
    if not state.initial_state:
        return StatePair(state.input_name, state.output_name, dimensions=first, growing=growing)
    initial = state.initial_state[0]
    if UNKNOWN in initial.dims:
        _refuse(f"{where}: its initial_state has dims {list(initial.dims)}, expected all of them known")
    shape = (*batch, *initial.dims) if initial.dims else first
    if prod(shape) > _MOST_ELEMENTS:
        _refuse(f"{where}: its initial_state has {prod(shape)} elements, expected {_MOST_ELEMENTS} at the most")
    kind = initial.data_type or state.data_type
    if state.data_type not in (wire.TYPE_INVALID, kind):
        _refuse(f"{where}: its initial_state has data_type {type_name(kind)}, expected {type_name(state.data_type)}")
    if not initial.data_file:
        return StatePair(state.input_name, state.output_name, dimensions=shape, growing=growing)
    values = _from_file(where, initial.data_file, kind, shape, source)
    return StatePair(state.input_name, state.output_name, values, growing=growing)


def _from_file(where: str, name: str, data_type: wire.DataType.ValueType, shape: Dims, source: ModelSource) -> Array:
    if not is_file_name(name) or name not in source.files(STATE_FOLDER):
        _refuse(f"{where}: its data_file is {name!r}, expected a file in the folder {STATE_FOLDER!r} of the model's")
    if data_type == wire.TYPE_INVALID:
        _refuse(f"{where}: its initial_state has a data_file, expected a data_type too")
    kind = datatype_of(data_type)
    if kind is BYTES or 0 in shape or not shape:
        _refuse(f"{where}: its initial_state has a data_file, expected numbers and dims that are all known")
    try:
        return array_from_raw(kind, shape, source.read(f"{STATE_FOLDER}/{name}"))
    except TensorError as error:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{where}: data_file {name!r}: {error}") from error


def _control(entry: wire.ModelSequenceBatching.ControlInput, inputs: dict[str, ModelTensor]) -> SequenceControl:
    tensor = inputs.get(entry.name)
    if tensor is None:
        _refuse(f"control_input {entry.name!r} is not in the model, expected one of {', '.join(map(repr, inputs))}")
    if len(entry.control) != 1:
        _refuse(f"control_input {entry.name!r} has {len(entry.control)} controls, expected one")
    if tensor.shape is None or any(length not in (1, UNKNOWN) for length in tensor.shape):
        _refuse(f"control_input {entry.name!r} has shape {list(tensor.shape or ())} in the model, expected one element")
    control = entry.control[0]
    kind, element_type = _KINDS[control.kind], datatype_of(tensor.data_type).dtype
    if kind is ControlKind.CORRID:
        if tensor.data_type not in _IDENTIFIERS or control.data_type not in (wire.TYPE_INVALID, tensor.data_type):
            got = type_name(control.data_type or tensor.data_type)
            expected = ", ".join(map(type_name, _IDENTIFIERS))
            _refuse(f"control_input {entry.name!r} has data_type {got}, expected that of the model, one of {expected}")
        return SequenceControl(entry.name, kind, element_type)
    for field, expected_type in _VALUES:
        values = list(getattr(control, field))
        if values:
            if len(values) != 2 or element_type != expected_type:
                got = f"{field} {values} for {type_name(tensor.data_type)}"
                _refuse(f"control_input {entry.name!r} has {got}, expected two values of the model's type")
            return SequenceControl(entry.name, kind, element_type, (values[0], values[1]))
    _refuse(f"control_input {entry.name!r} has no values, expected one of {', '.join(name for name, _ in _VALUES)}")


def _refuse(message: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
