"""Copies of tensors that lie in the spill region, for readers that find them faster in the working memory.

The NPU reads its input in bursts as long as the channels of a block, and again for each block of channels; a far
memory takes a short burst as long as a whole one. The DMA engine reads each element once, in the longest bursts. Such a
copy is a part like others: alone, it copies a whole tensor; in a cascade, the rows that the next stripe needs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nnhal_cascade.geometry.accesses import OneToOne
from nnhal_cascade.geometry.box import whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part, PartInput, PartKind
from nnhal_cascade.performance.price import copy_cycles
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.plan import WeightsIn

Reading = tuple[int, int]
"""A part, and a tensor that it reads."""


def staged_readings(homes: Homes, pricer: StripePricer) -> frozenset[Reading]:
    """Return which readings of spilled tensors cost more than a copy and the reading of that, part by part."""
    graph, system = homes.graph, homes.system
    found: set[Reading] = set()
    if system.spill is None:
        return frozenset()
    for part in graph.parts:
        away = homes.away(part.index, frozenset())
        read = dict.fromkeys(each.tensor for each in part.inputs if each.tensor in away)
        if not read or part.kind == PartKind.COPY:
            continue
        output = graph.tensors[part.output].shape
        shapes = tuple(each.needs(whole(output)).shape for each in part.inputs)
        weights = WeightsIn.STREAMED if part.constants else WeightsIn.NONE
        cycles = pricer.price(part.index, output, shapes, homes.places_of(part.index, weights, away)).cycles
        for tensor in read:
            near = homes.places_of(part.index, weights, away - {tensor})
            copied = copy_cycles(system, system.spill.name, system.working.name, graph.tensors[tensor].bytes)
            if pricer.price(part.index, output, shapes, near).cycles + copied < cycles:
                found.add((part.index, tensor))
    return frozenset(found)


def staged(graph: CascaderGraph, readings: Collection[Reading]) -> CascaderGraph:
    """Return a graph with a copy before each of some readings. Its tensors are those of the graph, then the copies."""
    tensors, parts = list(graph.tensors), list[Part]()
    for part in graph.parts:
        copies: dict[int, int] = {}
        for tensor in dict.fromkeys(each.tensor for each in part.inputs):
            if (part.index, tensor) not in readings:
                continue
            source, copies[tensor] = tensors[tensor], len(tensors)
            name = f"{source.name} (copy)"
            tensors.append(replace(source, index=len(tensors), name=name, is_input=False, is_output=False))
            accesses = (OneToOne(extent) for extent in source.shape)
            read = PartInput(tensor, *accesses)
            parts.append(Part(len(parts), name, PartKind.COPY, (), (read,), copies[tensor], operation="COPY"))
        inputs = tuple(replace(each, tensor=copies.get(each.tensor, each.tensor)) for each in part.inputs)
        parts.append(replace(part, index=len(parts), inputs=inputs))
    return CascaderGraph(tuple(parts), tuple(tensors), graph.tensor_of)
