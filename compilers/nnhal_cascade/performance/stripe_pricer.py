"""The price of any stripe of any part of a graph."""

from __future__ import annotations

from copy import copy
from enum import Enum, auto
from math import ceil
from typing import NamedTuple

import numpy as np

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph, PartKind
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.performance.blocks import BlockSet, fewest_fetches, fitting_blocks, is_flat
from nnhal_cascade.performance.npu_cycles import BlockPipeline, block_pipeline, elementwise_cycles
from nnhal_cascade.performance.price import Price, StripePlaces
from nnhal_cascade.performance.traffic import (
    Bursts,
    StripeTraffic,
    access_cycles,
    block_bursts,
    computed_traffic,
    copied_traffic,
    full_bursts,
)
from nnhal_cascade.performance.workload import PartWorkload, PricedStripe, workload_of


class BlockGoal(Enum):
    """By what the block of a stripe is chosen."""

    CYCLES = auto()
    """The modelled cycles of the stripe alone."""
    FETCHES = auto()
    """The elements that are fetched, as Vela does."""


_FREE = Price(0, 0, 0, {}, {})
"""The price of what the client does."""

_WORKS = 256
"""How much work is kept at most: its arrays take some 10 KB each."""


class _Work(NamedTuple):
    """Work of a stripe for the NPU, by each block, wherever its constants are."""

    blocks: BlockSet
    traffic: StripeTraffic
    bursts: Bursts
    pipeline: BlockPipeline | None
    """None if it has no accumulators."""


class StripePricer:
    """Prices the stripes of a graph's parts on a system, each once. Equal parts share their prices."""

    def __init__(self, graph: CascaderGraph, system: System, goal: BlockGoal = BlockGoal.CYCLES) -> None:
        self._system = system
        self._goal = goal
        self._shared: dict[PartWorkload, PartWorkload] = {}
        self._workloads = self._workloads_of(graph)
        self._priced: dict[tuple[int, Shape, tuple[Shape, ...], StripePlaces], tuple[Price, Shape]] = {}
        self._works: dict[tuple[int, Shape, tuple[Shape, ...], tuple[str, ...]], _Work] = {}

    def of(self, graph: CascaderGraph) -> StripePricer:
        """Return a pricer of another graph that shares the prices of equal parts with this one."""
        found = copy(self)
        found._workloads = self._workloads_of(graph)
        return found

    def _workloads_of(self, graph: CascaderGraph) -> list[PartWorkload]:
        workloads = (workload_of(graph, part) for part in graph.parts)
        return [self._shared.setdefault(each, each) for each in workloads]

    def price(self, part_index: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces) -> Price:
        """Return the price of one stripe of a part.

        Args:
            part_index: The part.
            output: The extents of the stripe.
            inputs: The extents of what it reads of each input, without padding.
            places: Where they are.

        Raises:
            ValueError: the NPU's own memory holds no block of the part, or the system has no region of a name.
        """
        return self._find(part_index, output, inputs, places)[0]

    def block(self, part_index: int, output: Shape) -> Shape:
        """Return the block in which the NPU computes a stripe of a part that lies in the working memory.

        Its constants are there too. A copy has no blocks, so its block is the stripe.
        """
        workload = self._workloads[part_index]
        working = self._system.working.name
        constants = working if workload.weight_bytes + workload.scale_bytes else ""
        places = StripePlaces((working,) * len(workload.inputs), working, constants)
        return self._find(part_index, output, (workload.input_for(output),) * len(workload.inputs), places)[1]

    def _find(
        self, part_index: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces
    ) -> tuple[Price, Shape]:
        """The price of a stripe, and its block."""
        workload = self._workloads[part_index]
        if workload.kind is PartKind.FEED:
            return _FREE, output
        key = (id(workload), output, inputs, places)
        found = self._priced.get(key)
        if found is None:
            region = self._system.region
            stripe = PricedStripe(
                workload=workload,
                output=output,
                inputs=inputs,
                sources=tuple(region(name) for name in places.inputs),
                destination=region(places.output),
                constants=region(places.constants) if places.constants else None,
            )
            found = _copied(stripe) if workload.kind is PartKind.COPY else self._computed(stripe)
            self._priced[key] = found
        return found

    def _computed(self, stripe: PricedStripe) -> tuple[Price, Shape]:
        """The price of a stripe that the NPU computes, and its block."""
        blocks, traffic, bursts, pipeline = self._work_of(stripe)
        if pipeline is None:
            npu = elementwise_cycles(self._system.accelerator, stripe, blocks)
        else:
            npu = pipeline.cycles(stripe.constants)
        access = access_cycles(stripe, traffic, bursts)
        passes = stripe.workload.passes
        cycles = np.ceil(np.maximum(npu.steady, access) * passes)
        chosen = int(np.argmin(cycles + npu.fill))
        price = Price(
            cycles=int(cycles[chosen]),
            fill=ceil(npu.fill[chosen]),
            macs=stripe.macs * passes,
            read=traffic.read(stripe, chosen),
            written=traffic.written(stripe),
        )
        return price, Shape(*map(min, stripe.output, blocks.output(chosen)))

    def _work_of(self, stripe: PricedStripe) -> _Work:
        """Return what a stripe asks of the NPU. Stripes that differ in the place of their constants share it."""
        names = (*(region.name for region in stripe.sources), stripe.destination.name)
        key = (id(stripe.workload), stripe.output, stripe.inputs, names)
        found = self._works.get(key)
        if found is None:
            if len(self._works) == _WORKS:
                self._works.clear()
            accelerator, blocks = self._system.accelerator, self._blocks(stripe)
            found = self._works[key] = _Work(
                blocks,
                computed_traffic(stripe, blocks),
                block_bursts(stripe, blocks, accelerator.cores),
                block_pipeline(accelerator, stripe, blocks) if stripe.workload.has_accumulators else None,
            )
        return found

    def _blocks(self, stripe: PricedStripe) -> BlockSet:
        """The blocks to choose from."""
        accelerator, workload, output = self._system.accelerator, stripe.workload, stripe.output
        blocks = fitting_blocks(accelerator, workload, output, flat=is_flat(accelerator, workload, output))
        if self._goal is BlockGoal.FETCHES:
            return blocks.only(fewest_fetches(accelerator, workload, output, blocks))
        return blocks


def _copied(stripe: PricedStripe) -> tuple[Price, Shape]:
    """The price of a stripe that the DMA copies; its block is all of it."""
    traffic = copied_traffic(stripe)
    cycles = access_cycles(stripe, traffic, full_bursts(stripe)) * stripe.workload.passes
    latency = max((region.read_latency for region in stripe.sources), default=0)
    return Price(ceil(cycles[0]), latency, 0, traffic.read(stripe, 0), traffic.written(stripe)), stripe.output
