"""Flow models without the command around them."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.arrays import Array
from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.command.partition_report import share
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition, FlowSubgraph
from nnhal_mlip.timing.profile import read_profile


def shared(model: FlowModel, choices: FlowOptions | None = None) -> FlowPartition:
    """Return the partition that the command makes."""
    return share(model.graph, choices or FlowOptions(), read_profile(), 8, False)


class NoAccelerator:
    """Does not run any subgraph: for networks that stay on the host as a whole."""

    def __call__(self, subgraph: FlowSubgraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise AssertionError(f"{subgraph.symbol} was run, expected a network without subgraphs")
