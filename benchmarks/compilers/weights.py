"""The bytes of encoded weights by nnhal's model, beside what Vela's encoder makes of the same networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.compilers.others import ARENA
from benchmarks.compilers.program import Core, run_vela
from nnhal_cascade.command.network import read_network
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_tools.bench.runner import Aim, figure_table, statement

_MOST = 0.05
"""How far off a network's bytes may be."""


@dataclass(frozen=True, slots=True)
class WeightSizes:
    """Bytes of a network's weights."""

    name: str
    plain: int
    """One for each weight."""
    modelled: int
    encoded: int
    """By Vela, which has weights for some operations that have none in the model, such as a mean."""

    @property
    def error(self) -> float:
        """The model's, as a share."""
        return self.modelled / self.encoded - 1


def weight_sizes(path: Path, vela: Path, accelerator: str) -> WeightSizes:
    """Return the bytes of a network that both compile. Raises VelaError and ValueError."""
    network = read_network(path)
    encoded = run_vela(vela, path, accelerator, Core.REGOR, ARENA).summary.weights
    return WeightSizes(path.stem, _bytes(build_graph(network.model)), _bytes(network.graph), encoded)


def _bytes(graph: CascaderGraph) -> int:
    """Of weights; other constants have no scales."""
    return sum(
        part.constants.weight_bytes * graph.tensors[part.output].shape.channels
        for part in graph.parts
        if part.constants and part.constants.scale_bytes
    )


def weights_table(found: Sequence[WeightSizes]) -> Table:
    """Return a table with a row for each network."""
    rows = (
        (each.name, *(f"{size:,}" for size in (each.plain, each.modelled, each.encoded)), f"{each.error:+.1%}")
        for each in found
    )
    return figure_table("Bytes of weights", "network", "one a weight,modelled,by Vela's encoder,error", rows)


def weight_aims(found: Sequence[WeightSizes]) -> Iterator[Aim]:
    """Yield that no network is further off than it may be."""
    off = [each.name for each in found if abs(each.error) > _MOST]
    yield statement(f"weights more than {_MOST:.0%} off Vela's", len(off), ", ".join(off) or f"of {len(found)}")
