"""IF and WHILE become operations over subgraphs."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import random
from tests.support.onnx_models import operations
from tests.support.tflite_files import TfliteFile, booleans, floats, int32
from tests.support.tflite_operators import check, numbers

ADD = ("AddOptions", {"FusedActivationFunction": 0})
SHAPE = (2, 40)
X = random(*SHAPE)


def branch(file: TfliteFile, addend: int | None) -> int:
    """A subgraph that returns its input, or its input plus a constant."""
    x = file.input("x", floats(*SHAPE))
    if addend is None:
        return file.subgraph(x)
    return file.subgraph(
        *file.operator("ADD", [x, file.constant(np.full(40, addend, np.float32))], {"y": floats(*SHAPE)}, ADD)
    )


def choice(file: TfliteFile, then: int, otherwise: int) -> list[int]:
    """An IF over two subgraphs."""
    inputs = [file.input("wanted", booleans()), file.input("x", floats(*SHAPE))]
    options = ("IfOptions", {"ThenSubgraphIndex": then, "ElseSubgraphIndex": otherwise})
    return file.operator("IF", inputs, {"y": floats(*SHAPE)}, options)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_branch_is_chosen(wanted: bool) -> None:
    file = TfliteFile()
    then, otherwise = branch(file, 7), branch(file, None)
    imported = check(file.build(*choice(file, then, otherwise)), {"wanted": np.array(wanted), "x": X})
    assert operations(imported) == ["IF"]
    assert imported.operation_nodes == (("IF_0:y",),)
    assert len(imported.model.referenced) == 2


def test_a_loop_runs_while_its_condition_holds() -> None:
    file = TfliteFile()
    counter, _ = file.input("i", int32()), file.input("x", floats(*SHAPE))
    condition = file.subgraph(*file.operator("LESS", [counter, file.constant(numbers(5))], {"more": booleans()}))
    counter, x = file.input("i", int32()), file.input("x", floats(*SHAPE))
    (following,) = file.operator("ADD", [counter, file.constant(numbers(1))], {"next": int32()}, ADD)
    (doubled,) = file.operator("ADD", [x, x], {"doubled": floats(*SHAPE)}, ADD)
    body = file.subgraph(following, doubled)
    values = [file.input("start", int32()), file.input("x", floats(*SHAPE))]
    options = ("WhileOptions", {"CondSubgraphIndex": condition, "BodySubgraphIndex": body})
    results = file.operator("WHILE", values, {"end": int32(), "y": floats(*SHAPE)}, options)
    imported = check(file.build(*results), {"start": numbers(2), "x": X})
    assert operations(imported) == ["WHILE"]


def test_a_subgraph_is_converted_once_and_may_hold_others() -> None:
    file = TfliteFile()
    seven, same = branch(file, 7), branch(file, None)
    nested = file.subgraph(*choice(file, seven, same))
    wanted, x = file.input("wanted", booleans()), file.input("x", floats(*SHAPE))
    options = ("IfOptions", {"ThenSubgraphIndex": nested, "ElseSubgraphIndex": nested})
    content = file.build(*file.operator("IF", [wanted, wanted, x], {"y": floats(*SHAPE)}, options))
    imported = check(content, {"wanted": np.array(True), "x": X})
    assert len(imported.model.referenced) == 3


def test_an_operator_of_a_subgraph_is_named_with_it() -> None:
    file = TfliteFile()
    x = file.input("x", floats(*SHAPE))
    then = file.subgraph(*file.operator("CUMSUM", [x], {"y": floats(*SHAPE)}))
    with pytest.raises(UnsupportedNode, match="node 'subgraph_1/CUMSUM_0:y'"):
        import_tflite(file.build(*choice(file, then, branch(file, 1))), extension=False)


def test_a_subgraph_keeps_no_state() -> None:
    file = TfliteFile()
    x, memory = file.input("x", floats(*SHAPE)), file.variable("memory", floats(2, 4))
    weights = [file.constant(random(*shape)) for shape in ((4, 40), (4, 4), (4,))]
    then = file.subgraph(*file.operator("RNN", [x, *weights, memory], {"y": floats(2, 4)}, ("RNNOptions", {})))
    with pytest.raises(UnsupportedNode, match="variable 'memory' in a subgraph"):
        import_tflite(file.build(*choice(file, then, then)))


def test_subgraphs_that_do_not_fit_are_left_to_litert_with_the_whole_file() -> None:
    file = TfliteFile()
    x = file.input("x", floats(3))
    other = file.subgraph(*file.operator("RELU", [x], {"y": floats(3)}))
    content = file.build(*choice(file, other, other))
    with pytest.raises(InvalidModel, match="do not fit their uses"):
        import_tflite(content, extension=False)
    assert len(import_tflite(content).model.main.operations) == 1


@pytest.mark.parametrize(
    ("number", "reason"), [(0, "in a cycle"), (1, "in a cycle"), (7, "subgraph 7, the file has 2")]
)
def test_subgraphs_that_are_none_or_contain_themselves_are_refused(number: int, reason: str) -> None:
    file = TfliteFile()
    inner = file.subgraph(*choice(file, number, number))
    with pytest.raises(InvalidModel, match=reason):
        import_tflite(file.build(*choice(file, inner, inner)))
