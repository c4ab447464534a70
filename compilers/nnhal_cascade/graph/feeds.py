"""Inputs that are not in the working memory: the client hands over their elements as they are needed.

Such a hand-over is a part like others, which reads nothing: alone, it writes a whole input; in a cascade, the rows that
the next stripe needs, into a rolling buffer.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from math import prod

from nnhal_cascade.geometry.box import Axis
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part, PartKind


class InputPlace(StrEnum):
    """Place of a network's inputs at its start."""

    RESIDENT = "resident"
    """In the working memory, as a whole."""
    STREAMED = "streamed"
    """With the client."""


def input_place(text: str) -> InputPlace:
    """Return the place of a name. Raises ValueError if there is none."""
    if text not in list(InputPlace):
        raise ValueError(f"got {text!r}, expected {' or '.join(InputPlace)}")
    return InputPlace(text)


def with_inputs(graph: CascaderGraph, place: InputPlace) -> CascaderGraph:
    """Return a graph whose inputs are in a place; one with all of them in the working memory is given."""
    return streamed(graph) if place is InputPlace.STREAMED else graph


def streamed(graph: CascaderGraph) -> CascaderGraph:
    """Return a graph with a part before the first reader of each input that hands it over."""
    tensors = tuple(replace(each, is_input=False) for each in graph.tensors)
    left = {each.index for each in graph.tensors if each.is_input}
    parts: list[Part] = []
    for part in graph.parts:
        for index in dict.fromkeys(each.tensor for each in part.inputs if each.tensor in left):
            left.remove(index)
            name = f"{tensors[index].name} (input)"
            parts.append(Part(len(parts), name, PartKind.FEED, (), (), index, operation="INPUT"))
        parts.append(replace(part, index=len(parts)))
    return CascaderGraph(tuple(parts), tensors, graph.tensor_of)


def place_of_inputs(graph: CascaderGraph) -> InputPlace:
    """Return where a graph's inputs are."""
    is_fed = any(part.kind is PartKind.FEED for part in graph.parts)
    return InputPlace.STREAMED if is_fed else InputPlace.RESIDENT


def hands_over(graph: CascaderGraph, part: int, along: Axis) -> bool:
    """Return whether stripes along an axis ask for elements in the order in which they lie, if the part is a feed."""
    node = graph.parts[part]
    return node.kind is not PartKind.FEED or prod(graph.tensors[node.output].shape[:along]) == 1
