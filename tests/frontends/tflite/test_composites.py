"""Composites of StableHLO, compared with LiteRT, which runs the subgraphs of which they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.tflite import import_tflite
from tests.frontends.tflite_extension import RUN, check, names_of
from tests.support.drawn_values import random
from tests.support.tflite_files import Options, Spec, TfliteFile, floats, int32
from tests.support.tflite_operators import check_steps, numbers
from tests.support.tflite_variables import FileWithVariables

ADD: Options = ("AddOptions", dict[str, Any]())
SUB: Options = ("SubOptions", dict[str, Any]())
X, Z = random(2, 3), random(2, 3, seed=4)
_NO_ATTRIBUTES = np.array([0, 0x24, 1], np.uint8)
"""An empty map, as a flexbuffer."""


def composite(
    file: TfliteFile, part: int, inputs: Sequence[int], outputs: Mapping[str, Spec], name: str = "some.composite"
) -> list[int]:
    fields = {"Name": name, "DecompositionSubgraphIndex": part, "CompositeAttributes": _NO_ATTRIBUTES}
    return file.operator("STABLEHLO_COMPOSITE", inputs, outputs, ("StableHLOCompositeOptions", fields))


def shifted(file: TfliteFile, by: float = 1.5) -> int:
    """Add a subgraph of one input: the sum of its absolute values and a constant."""
    given = file.input("given", floats(2, 3))
    (found,) = file.operator("ABS", [given], {"found": floats(2, 3)})
    shift = file.constant(np.full(3, by, np.float32))
    return file.subgraph(*file.operator("ADD", [found, shift], {"sum": floats(2, 3)}, ADD))


def test_a_composite_becomes_the_operations_of_its_subgraph() -> None:
    file = TfliteFile()
    part = shifted(file)
    (y,) = composite(file, part, [file.input("x", floats(2, 3))], {"y": floats(2, 3)})
    imported = check(file.build(y), {"x": X})
    assert names_of(imported) == ["ABS", "ADD"]
    assert [tensor.name for tensor in (*imported.inputs, *imported.outputs)] == ["x", "y"]
    for (name,) in imported.operation_nodes:
        assert name.startswith("STABLEHLO_COMPOSITE_0:y/")


def test_a_subgraph_that_several_composites_are_made_of() -> None:
    file = TfliteFile()
    part = shifted(file)
    (once,) = composite(file, part, [file.input("x", floats(2, 3))], {"once": floats(2, 3)})
    (twice,) = composite(file, part, [once], {"twice": floats(2, 3)})
    imported = check(file.build(once, twice), {"x": X})
    assert names_of(imported) == ["ABS", "ADD"] * 2


def test_composites_that_are_made_of_composites() -> None:
    file = TfliteFile()
    inner = shifted(file, 0.25)
    given = file.input("given", floats(2, 3))
    (found,) = composite(file, inner, [given], {"found": floats(2, 3)})
    middle = file.subgraph(*file.operator("SUB", [found, given], {"difference": floats(2, 3)}, SUB))
    (y,) = composite(file, middle, [file.input("x", floats(2, 3))], {"y": floats(2, 3)})
    assert names_of(check(file.build(y), {"x": X})) == ["ABS", "ADD", "SUB"]


def test_several_inputs_and_outputs_keep_their_order() -> None:
    file = TfliteFile()
    a, b = (file.input(name, floats(2, 3)) for name in "ab")
    (difference,) = file.operator("SUB", [a, b], {"difference": floats(2, 3)}, SUB)
    (negative,) = file.operator("NEG", [b], {"negative": floats(2, 3)})
    part = file.subgraph(negative, difference)
    x, z = (file.input(name, floats(2, 3)) for name in "xz")
    outputs = composite(file, part, [z, x], {"y": floats(2, 3), "w": floats(2, 3)})
    assert names_of(check(file.build(*outputs), {"x": X, "z": Z})) == ["SUB", "NEG"]


def test_an_output_that_nothing_reads_or_the_same_input_twice() -> None:
    file = TfliteFile()
    a, b = (file.input(name, floats(2, 3)) for name in "ab")
    (total,) = file.operator("ADD", [a, b], {"total": floats(2, 3)}, ADD)
    (unused,) = file.operator("NEG", [b], {"negative": floats(2, 3)})
    part = file.subgraph(total, unused)
    x = file.input("x", floats(2, 3))
    (y, _) = composite(file, part, [x, x], {"y": floats(2, 3), "unused": floats(2, 3)})
    check(file.build(y), {"x": X})


def test_constants_that_are_given_to_a_composite() -> None:
    """An operator of the subgraph may need them: where an axis is an input there, it is known here."""
    file = TfliteFile()
    given, axes = file.input("given", floats(2, 3)), file.input("axes", int32(1))
    part = file.subgraph(*file.operator("SUM", [given, axes], {"sum": floats(2)}, ("ReducerOptions", {})))
    (y,) = composite(file, part, [file.input("x", floats(2, 3)), file.constant(numbers([1]))], {"y": floats(2)})
    assert names_of(check(file.build(y), {"x": X})) == ["REDUCE_SUM"]


def test_what_the_hal_lacks_within_a_composite_is_left_to_litert() -> None:
    file = TfliteFile()
    (found,) = file.operator("ROUND", [file.input("given", floats(2, 3))], {"found": floats(2, 3)})
    part = file.subgraph(*file.operator("ABS", [found], {"result": floats(2, 3)}))
    (y,) = composite(file, part, [file.input("x", floats(2, 3))], {"y": floats(2, 3)})
    assert names_of(check(file.build(y), {"x": X})) == [RUN, "ABS"]


def test_a_subgraph_that_hands_an_input_through_is_left_to_litert() -> None:
    file = TfliteFile()
    given = file.input("given", floats(2, 3))
    part = file.subgraph(*file.operator("ABS", [given], {"made": floats(2, 3)}), given)
    outputs = composite(file, part, [file.input("x", floats(2, 3))], {"y": floats(2, 3), "w": floats(2, 3)})
    assert names_of(check(file.build(*outputs), {"x": X})) == [RUN]


def test_outputs_that_are_the_same_tensor_are_refused() -> None:
    """LiteRT leaves one of them without a value: what was in its memory before."""
    file = TfliteFile()
    (made,) = file.operator("ABS", [file.input("given", floats(2, 3))], {"made": floats(2, 3)})
    part = file.subgraph(made, made)
    outputs = composite(file, part, [file.input("x", floats(2, 3))], {"y": floats(2, 3), "w": floats(2, 3)})
    with pytest.raises(UnsupportedNode, match="outputs of its subgraph are the same tensor"):
        import_tflite(file.build(*outputs))


def test_variables_within_a_composite_are_states() -> None:
    file = FileWithVariables()
    given, handle = file.input("given", floats(3)), file.handle("sum")
    (total,) = file.operator("ADD", [file.read(handle, floats(3)), given], {"total": floats(3)}, ADD)
    file.assign(handle, total)
    part = file.subgraph(total)
    file.initialise({"sum": np.array([1, 2, 3], np.float32)})
    (y,) = composite(file, part, [file.input("x", floats(3))], {"y": floats(3)})
    imported = check_steps(file.build(y), [{"x": random(3, seed=step)} for step in range(3)])
    assert [state.name for state in imported.states] == ["sum"]


def test_variables_in_a_composite_that_is_left_to_litert_are_refused() -> None:
    file = FileWithVariables()
    given, handle = file.input("given", floats(3)), file.handle("sum")
    (total,) = file.operator("ADD", [file.read(handle, floats(3)), given], {"total": floats(3)}, ADD)
    inner = file.subgraph(total, given)
    outputs = composite(file, inner, [file.input("given", floats(3))], {"one": floats(3), "other": floats(3)})
    outer = file.subgraph(*outputs)
    file.initialise({"sum": np.array([1, 2, 3], np.float32)})
    outputs = composite(file, outer, [file.input("x", floats(3))], {"y": floats(3), "w": floats(3)})
    with pytest.raises(UnsupportedNode, match="variables are not left to the extension, and its subgraph has some"):
        import_tflite(file.build(*outputs))


def refusal(content: bytes, limits: ImportLimits | None = None) -> str:
    with pytest.raises(InvalidModel) as caught:
        import_tflite(content, limits or ImportLimits())
    return str(caught.value)


def test_a_composite_that_does_not_fit_its_subgraph_is_refused() -> None:
    file = TfliteFile()
    part = shifted(file)
    x = file.input("x", floats(2, 3))
    (y,) = composite(file, part, [x, x], {"y": floats(2, 3)})
    assert refusal(file.build(y)) == (
        "composite 'STABLEHLO_COMPOSITE_0:y' has 2 inputs and 1 outputs, its subgraph 1 inputs and 1 outputs"
    )


def test_a_composite_of_a_subgraph_that_is_not_there_is_refused() -> None:
    file = TfliteFile()
    (y,) = composite(file, 7, [file.input("x", floats(2, 3))], {"y": floats(2, 3)})
    assert "is made of subgraph [7], expected one of the file's" in refusal(file.build(y))


def test_a_composite_that_is_made_of_itself_is_refused() -> None:
    file = TfliteFile()
    part = file.subgraph(*composite(file, 1, [file.input("given", floats(2, 3))], {"found": floats(2, 3)}))
    (y,) = composite(file, part, [file.input("x", floats(2, 3))], {"y": floats(2, 3)})
    assert "is nested in more than 16 others, or in itself" in refusal(file.build(y))


def test_composites_of_composites_do_not_grow_without_limit() -> None:
    file = TfliteFile()
    part = shifted(file)
    for _ in range(12):
        (found,) = composite(file, part, [file.input("given", floats(2, 3))], {"found": floats(2, 3)})
        (found,) = composite(file, part, [found], {"again": floats(2, 3)})
        part = file.subgraph(found)
    (y,) = composite(file, part, [file.input("x", floats(2, 3))], {"y": floats(2, 3)})
    content = file.build(y)
    assert "made of more operators than are allowed" in refusal(content, ImportLimits(nodes=1000))
