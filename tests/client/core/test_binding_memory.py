"""Places of inputs and outputs in the memory of a binding, and the framework's view of them; no process is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.extensions.values import PADDING_BYTES, value_from_bytes, value_to_bytes
from nnhal.tensors import ALIGNMENT, GUESS, Tensor
from nnhal.types import OperandType
from nnhal_client.core.binding_memory import BindingMemory

FLOAT = np.dtype(np.float32)
FIXED = Tensor("x", OperandType.TENSOR_FLOAT32, (2, 3), 24, 0.0, 0, FLOAT, FLOAT)
ANY = Tensor("z", OperandType.TENSOR_FLOAT32, (0, 3), 0, 0.0, 0, FLOAT, FLOAT)
RESULT = Tensor("y", OperandType.TENSOR_FLOAT32, (4,), 16, 0.0, 0, FLOAT, FLOAT)
TEXT = Tensor("t", 1, (0,), 0, 0.0, 0, None, np.dtype(np.uint8))
UNKNOWN = Tensor("u", OperandType.TENSOR_FLOAT32, (0,), 0, 0.0, 0, FLOAT, FLOAT)


@dataclass
class Allocated:
    """Memory of the framework."""

    handle: int = 9


def issue(descriptor: Descriptor) -> int:
    return 5


def test_views_have_the_dimensions_of_the_model_or_those_given() -> None:
    memory = BindingMemory([FIXED, ANY], [RESULT], {"z": (5, 3)}, {})
    assert {name: view.shape for name, view in memory.inputs.items()} == {"x": (2, 3), "z": (5, 3)}
    assert memory.outputs["y"].shape == (4,) and not memory.has_unknown_dimensions
    assert memory.dimensions == {"x": (2, 3), "z": (5, 3), "y": (4,)}
    memory.fill({"x": np.ones((2, 3), np.float32), "z": np.full((5, 3), 2, np.float32)})
    assert memory.inputs["x"].sum() == 6 and memory.inputs["z"].sum() == 30 and memory.outputs["y"].sum() == 0


def test_dimensions_of_an_input_that_are_missing_are_an_error() -> None:
    words = r"input 'z' has open dimensions, \[.*\?.*\]: expected all of them in dimensions=\{'z': …\}"
    with pytest.raises(ValueError, match=words):
        BindingMemory([ANY], [RESULT], {}, {})


def test_dimensions_of_what_the_model_does_not_have_are_an_error() -> None:
    words = r"got dimensions of \['w'\], expected some of inputs \['x'\] and outputs \['y'\]"
    with pytest.raises(ValueError, match=words):
        BindingMemory([FIXED], [RESULT], {"w": (1,)}, {})


def test_an_output_that_needs_more_memory_is_named_with_what_makes_room() -> None:
    memory = BindingMemory([FIXED], [UNKNOWN], {}, {})
    needed = memory.shortage({"u": (GUESS,)})
    assert f"output 'u' of dimensions [{GUESS}] has 4,096 bytes of {4 * GUESS:,}" in needed
    assert f"bind(dimensions={{'u': ({GUESS},)}}) makes room" in needed
    assert "output 'u' of dimensions [?] has 4,096 bytes; bind(dimensions={'u': …})" in memory.shortage({})
    assert not memory.shortage({"u": (7,)})


def test_memory_for_what_the_model_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"got memory for \['w'\], expected some of \['x', 'y'\]"):
        BindingMemory([FIXED], [RESULT], {}, {"w": Allocated()})


def test_an_output_of_unknown_dimensions_has_a_guess_or_as_much_as_it_is_given() -> None:
    assert BindingMemory([FIXED], [UNKNOWN], {}, {}).room("u") == GUESS
    memory = BindingMemory([FIXED], [UNKNOWN], {"u": (GUESS,)}, {})
    assert memory.room("u") == 4 * GUESS
    assert memory.has_unknown_dimensions and memory.outputs["u"].shape == (0,)
    memory.resize({"u": (7,), "other": (1,)})
    assert memory.outputs["u"].shape == (7,)


def test_the_request_has_locations_dimensions_and_a_pool_for_each_of_inputs_and_outputs() -> None:
    request = BindingMemory([FIXED, ANY], [RESULT], {"z": (5, 3)}, {}).bind_request("m-1", False, True, True, issue)
    shown = (request.model, request.measure_timing, request.wants_run_channel, request.prepares_dimensions)
    assert shown == ("m-1", False, True, True)
    assert len(request.pools) == 2
    assert [t.location.pool_index for t in (*request.inputs, *request.outputs)] == [0, 0, 1]
    assert [(t.name, t.location.offset, tuple(t.dimensions)) for t in request.inputs] == [
        ("x", 0, ()),
        ("z", ALIGNMENT, (5, 3)),
    ]
    assert [(t.name, t.location.offset, t.location.length) for t in request.outputs] == [("y", 0, 16)]


def test_memory_of_the_framework_is_named_and_has_no_view() -> None:
    memory = BindingMemory([FIXED], [RESULT], {}, {"y": Allocated()})
    assert memory.outputs == {} and memory.room("y") == 0
    (output,) = memory.bind_request("m-1", False, True, True, issue).outputs
    assert output.memory == 9 and not output.HasField("location")


def test_what_is_measured_is_not_direct() -> None:
    assert not BindingMemory([FIXED], [RESULT], {}, {}).bind_request("m-1", True, True, True, issue).wants_run_channel


def test_a_value_fills_the_memory_of_an_input() -> None:
    memory = BindingMemory([FIXED, TEXT], [RESULT], {"t": (64,)}, {})
    for texts in (["once", "upon"], [""]):
        memory.put("t", np.array(texts, object))
        assert value_from_bytes(memory.inputs["t"]).tolist() == texts
    memory.put("t", None)
    assert value_from_bytes(memory.inputs["t"]) is None
    memory.put("x", np.ones((2, 3), np.float32))
    assert memory.inputs["x"].sum() == 6 and memory.value("y").tolist() == [0] * 4
    with pytest.raises(ValueError, match=r"input 'x' is float32 \[3\], expected float32 \[2, 3\]"):
        memory.put("x", np.ones(3, np.float32))


def test_a_value_that_needs_more_memory_is_refused_with_what_makes_room() -> None:
    value = np.array(["x" * 40], object)
    size = len(value_to_bytes(value))
    for room in (size, size + PADDING_BYTES, size + PADDING_BYTES + 1):
        memory = BindingMemory([TEXT], [RESULT], {"t": (room,)}, {})
        memory.put("t", value)
        assert value_from_bytes(memory.inputs["t"]).tolist() == value.tolist()
    memory = BindingMemory([TEXT], [RESULT], {"t": (size + PADDING_BYTES - 1,)}, {})
    needed = size + PADDING_BYTES
    words = rf"the value of input 't' needs {needed} bytes of memory, of {needed - 1}: .*'t': \({needed},\)"
    with pytest.raises(ValueError, match=words):
        memory.put("t", value)


def test_values_are_of_inputs_and_outputs_in_memory_of_the_binding() -> None:
    memory = BindingMemory([FIXED], [RESULT], {}, {"x": Allocated()})
    with pytest.raises(ValueError, match=r"no input 'x' in memory of the binding; there are \[\]"):
        memory.put("x", np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match=r"no output 'z' in memory of the binding; there are \['y'\]"):
        memory.value("z")
