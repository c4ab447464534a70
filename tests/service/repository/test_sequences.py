"""``sequence_batching`` of a configuration."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.sequences import complete_sequences, sequencing_of, state_pairs, without_controls
from nnhal_service.repository.source import GivenSource
from nnhal_service.repository.tensors import ModelTensor
from nnhal_service.serving.config import ControlKind, Sequencing
from nnhal_service.serving.errors import ServingError

START = ModelTensor("start", wire.TYPE_FP32, (1,))
STATE = ModelTensor("h", wire.TYPE_FP32, (1, 3))
SECOND = 10**9


def config(text: str, batch: int = 0) -> wire.ModelConfig:
    return text_format.Parse(f"max_batch_size: {batch} sequence_batching {{ {text} }}", wire.ModelConfig())


def sequencing(found: wire.ModelConfig, *inputs: ModelTensor) -> Sequencing:
    complete_sequences(found, [])
    sequences = sequencing_of(found, [START, *inputs])
    assert sequences is not None
    return sequences


def test_nothing_said_is_no_sequences() -> None:
    nothing = wire.ModelConfig()
    complete_sequences(nothing, [])
    assert sequencing_of(nothing, [START]) is None


def test_a_model_with_a_state_has_sequences_whatever_is_said() -> None:
    found = wire.ModelConfig()
    complete_sequences(found, [(STATE, "hn")])
    batching = found.sequence_batching
    assert (batching.WhichOneof("strategy_choice"), batching.max_sequence_idle_microseconds) == ("direct", 60_000_000)
    (state,) = batching.state
    assert (state.input_name, state.output_name, list(state.dims)) == ("h", "hn", [1, 3])
    dynamic = text_format.Parse("dynamic_batching {}", wire.ModelConfig())
    with pytest.raises(ServingError, match="expected sequence_batching, not dynamic_batching"):
        complete_sequences(dynamic, [(STATE, "hn")])


def test_times_and_numbers_are_tritons_or_given() -> None:
    assert sequencing(config("direct {}")) == Sequencing(SECOND, 256)
    assert sequencing(config("oldest { max_candidate_sequences: 7 }")) == Sequencing(SECOND, 65_536, candidates=7)
    assert sequencing(config("max_sequence_idle_microseconds: 5000000")).idle_ns == 5 * SECOND
    limited = config("direct {}")
    limited.parameters["nnhal.max_sequences"].string_value = "3"
    assert sequencing(limited).most == 3
    limited.parameters["nnhal.max_sequences"].string_value = "0"
    with pytest.raises(ServingError, match="a number from 1 to 65536"):
        sequencing(limited)


def test_states_grow_along_the_axes_that_the_configuration_leaves_open() -> None:
    text = 'state { input_name: "h" output_name: "hn" dims: %s use_growable_memory: true %s }'
    (pair,) = state_pairs(config(text % ("[4, -1]", "initial_state { dims: [4, 0] }"), batch=4), GivenSource({}))
    assert (pair.dimensions, pair.growing) == ((1, 4, 0), {2: None})
    (pair,) = state_pairs(config(text % ("[4, -1]", "")), GivenSource({}))
    assert (pair.dimensions, pair.growing) == ((4, 1), {1: None})
    with pytest.raises(ServingError, match=r"use_growable_memory and dims \[4\], expected one of them to be -1"):
        state_pairs(config(text % ("[4]", "")), GivenSource({}))


def test_states_have_first_values() -> None:
    zeros = config('state { input_name: "h" output_name: "hn" dims: [-1, 3] }', batch=4)
    (pair,) = state_pairs(zeros, GivenSource({}))
    assert (pair.input, pair.output, pair.initial, pair.dimensions) == ("h", "hn", None, (1, 0, 3))
    initial = 'initial_state { data_type: TYPE_INT32 dims: 2 data_file: "f" }'
    files = {"initial_state/f": np.array([4, 5], np.int32).tobytes()}
    (pair,) = state_pairs(config(f'state {{ input_name: "h" output_name: "hn" {initial} }}'), GivenSource(files))
    assert pair.initial is not None
    assert pair.initial.tolist() == [4, 5]


def test_control_inputs_are_none_of_clients() -> None:
    found = config('control_input { name: "start" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }')
    assert without_controls(found, [START, STATE]) == [STATE]
    (control,) = sequencing(found).controls
    assert (control.input, control.kind, control.values) == ("start", ControlKind.START, (0, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('state { input_name: "h" }', "expected both"),
        ('state { input_name: "h" output_name: "o" initial_state {} initial_state {} }', "has 2 initial_states"),
        ('state { input_name: "h" output_name: "o" initial_state { dims: -1 } }', "expected all of them known"),
        ('state { input_name: "h" output_name: "o" initial_state { dims: 100000000 } }', "100000000 elements"),
        (
            'state { input_name: "h" output_name: "o" data_type: TYPE_FP32 initial_state { data_type: TYPE_BOOL } }',
            "its initial_state has data_type TYPE_BOOL, expected TYPE_FP32",
        ),
        (
            'state { input_name: "h" output_name: "o" initial_state { data_type: TYPE_FP32 dims: 1 data_file: "g" } }',
            "its data_file is 'g', expected a file in the folder 'initial_state'",
        ),
        (
            'state { input_name: "h" output_name: "o" initial_state { data_type: TYPE_FP32 dims: 9 data_file: "f" } }',
            "data_file 'f': ",
        ),
        ('control_input { name: "gone" }', "control_input 'gone' is not in the model, expected one of 'start'"),
        ('control_input { name: "start" }', "has 0 controls, expected one"),
        ('control_input { name: "start" control {} }', "has no values, expected one of int32_false_true"),
        (
            'control_input { name: "start" control { int32_false_true: [0, 1] } }',
            r"has int32_false_true \[0, 1\] for TYPE_FP32, expected two values of the model's type",
        ),
        (
            'control_input { name: "start" control { kind: CONTROL_SEQUENCE_CORRID } }',
            "has data_type TYPE_FP32, expected that of the model, one of TYPE_UINT64",
        ),
    ],
)
def test_what_contradicts_itself_is_an_error(text: str, message: str) -> None:
    found = config(text)
    with pytest.raises(ServingError, match=message):
        state_pairs(found, GivenSource({"initial_state/f": b"1234"}))
        sequencing(found)
