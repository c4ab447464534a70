"""A folder of a compiled network, opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnhal.given_files import parse_json
from nnhal_mlip.command.model_file import FlowModel, flow_model
from nnhal_mlip.command.plan_file import MlipPlan, PlanFileError, PlannedSubgraph, read_checked, read_plan
from nnhal_mlip.command.sharing import share
from nnhal_mlip.compiler.memory_map import TileMemoryRange
from nnhal_mlip.flow.flow_partition import FlowPartition
from nnhal_mlip.simulator.simulator import Simulator


@dataclass(frozen=True, slots=True)
class CompiledFolder:
    """What ``nnhal mlip compile`` has written. Files are read, and checked, when they are needed."""

    path: Path
    plan: MlipPlan

    def simulators(self) -> dict[str, Simulator]:
        """Load the binaries, by their symbols.

        Raises:
            OSError: a file cannot be read.
            PlanFileError: a file has changed.
            NnhalError: a binary is damaged.
        """
        return {
            subgraph.symbol: Simulator(read_checked(self.path, subgraph.binary), self.plan.timing)
            for subgraph in self.plan.subgraphs
        }

    def model(self) -> tuple[FlowModel, FlowPartition]:
        """Read the copy of the model and share it again.

        Raises as ``simulators``, and PlanFileError if something else comes of it than was compiled.
        """
        content = read_checked(self.path, self.plan.model)
        model = flow_model(self.plan.model.file, content, self.plan.shapes, self.plan.sharing.public)
        target = self.plan.target
        found = share(model.graph, self.plan.sharing, self.plan.timing, target.num_tiles, target.wb_pin_ocm)
        got = [(subgraph.symbol, subgraph.inputs, subgraph.outputs) for subgraph in found.subgraphs]
        if got != [(each.symbol, each.inputs, each.outputs) for each in self.plan.subgraphs]:
            raise PlanFileError(
                f"{self.path}: this version shares {self.plan.model_name} in another way; compile the model again"
            )
        return model, found

    def memory(self, subgraph: PlannedSubgraph) -> list[TileMemoryRange]:
        """Return the memory map of a subgraph. Raises as ``simulators``."""
        return [TileMemoryRange(**each) for each in parse_json(read_checked(self.path, subgraph.memory))]


def open_folder(path: Path) -> CompiledFolder:
    """Open a folder. Raises OSError and PlanFileError."""
    if not path.is_dir():
        raise PlanFileError(f"{path}: is no directory, expected one that 'nnhal mlip compile --out' has written")
    return CompiledFolder(path, read_plan(path))
