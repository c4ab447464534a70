"""The cycles of Vela's plans by the model by which nnhal's compiler plans."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.vela.plans import VelaPlan
from nnhal_devices.ethos_u.cascader.geometry.box import Interval, whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.price import Price
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import Places, StripePricer, copy_cycles
from nnhal_devices.ethos_u.cascader.plans.plan import Plan, WeightsIn
from nnhal_devices.ethos_u.cascader.schedule.walk import walk


class VelaPricer:
    """Prices plans of which all activations lie in the working memory."""

    def __init__(self, graph: CascaderGraph, system: System) -> None:
        self._graph, self._system = graph, system
        self._pricer = StripePricer(graph, system)

    def cycles(self, plans: Iterable[VelaPlan]) -> int:
        """Return the cycles of plans that run one after the other."""
        return sum(self._sliced(each) if each.slices else self._striped(each.plan) for each in plans)

    def _striped(self, plan: Plan) -> int:
        """Exposed copies, the stripes of each part, and once for each part the filling of its pipeline."""
        weights = dict(zip(plan.parts, plan.weights, strict=True))
        fills = dict.fromkeys(plan.parts, 0)
        total = sum(self._copy(part) for part, place in weights.items() if place is WeightsIn.RESIDENT)
        for run in walk(self._graph, plan):
            inputs = tuple(box.shape for box in run.inputs)
            price = self._pricer.price(run.part, run.output.shape, inputs, self._places(run.part, weights[run.part]))
            total += price.cycles
            fills[run.part] = max(fills[run.part], price.fill)
        return total + sum(fills.values())

    def _sliced(self, sliced: VelaPlan) -> int:
        """While a slice is computed the constants of the next one are copied; the first copy is exposed."""
        (part,) = sliced.plan.parts
        prices = [self._slice(part, channels) for channels in sliced.slices]
        copies = [self._copy(part, channels) for channels in sliced.slices]
        steps = zip((price.cycles for price in prices), [*copies[1:], 0], strict=True)
        return copies[0] + sum(map(max, steps)) + max(price.fill for price in prices)

    def _slice(self, part: int, channels: Interval) -> Price:
        node = self._graph.parts[part]
        output = whole(self._graph.tensors[node.output].shape)._replace(channels=channels)
        inputs = tuple(each.needs(output).shape for each in node.inputs)
        return self._pricer.price(part, output.shape, inputs, self._places(part, WeightsIn.DOUBLE_BUFFERED))

    def _copy(self, part: int, channels: Interval | None = None) -> int:
        node = self._graph.parts[part]
        if node.constants is None:
            return 0
        count = node.constants.bytes_of(channels or Interval(0, self._graph.tensors[node.output].shape.channels))
        return copy_cycles(self._system, self._system.constants.name, self._system.working.name, count)

    def _places(self, part: int, weights: WeightsIn) -> Places:
        working = self._system.working.name
        constants = {WeightsIn.NONE: "", WeightsIn.STREAMED: self._system.constants.name}.get(weights, working)
        return Places((working,) * len(self._graph.parts[part].inputs), working, constants)
