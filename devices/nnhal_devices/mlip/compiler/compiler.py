"""From the files of a subgraph to a binary."""

from __future__ import annotations

from nnhal_devices.mlip.compiler.compiled import CompiledSubgraph
from nnhal_devices.mlip.compiler.compiler_options import TILE_COUNTS, MlipCompilerOptions
from nnhal_devices.mlip.compiler.errors import MisfitOfTilesError
from nnhal_devices.mlip.compiler.layers.homes import HousedNetwork, house
from nnhal_devices.mlip.compiler.layers.reading import read_layers
from nnhal_devices.mlip.compiler.memory_map import memory_map
from nnhal_devices.mlip.compiler.numbers.scales import int8_scales, unit_scales
from nnhal_devices.mlip.compiler.numbers.weights import weights_bytes
from nnhal_devices.mlip.compiler.planning.fitting import PlanMisfit
from nnhal_devices.mlip.compiler.planning.planner import TimedProgram, fastest
from nnhal_devices.mlip.compiler.planning.setting import PlanSetting
from nnhal_devices.mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_devices.mlip.program.binary import write_binary
from nnhal_devices.mlip.program.program import OCM_BYTES, TensorType
