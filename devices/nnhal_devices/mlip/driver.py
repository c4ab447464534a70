"""The driver of mlip."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import final

from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.types import NO_DEADLINE, DeviceType, ErrorStatus, ExecutionPreference, Extension, NumberOfCacheFiles
from nnhal_devices.backend import Backend, MemoryKind, MemoryRules, OptimizationViews
from nnhal_devices.driver import DriverOptions, PrepareOptions, Support
from nnhal_devices.mlip.artifact import fingerprint, read_artifact
from nnhal_devices.mlip.capabilities import capabilities_of
from nnhal_devices.mlip.compilation import CompilationChoices, CompiledModel, compile_model
from nnhal_devices.mlip.compiler.errors import MisfitOfTilesError
from nnhal_devices.mlip.costs import TRANSFER_COSTS, operation_ns
from nnhal_devices.mlip.model_partition import partition_model
from nnhal_devices.mlip.optimize import optimize
from nnhal_devices.mlip.options import OPTIONS, read_options
from nnhal_devices.mlip.program.errors import BinaryError
from nnhal_devices.mlip.simulator.simulator import Simulator
from nnhal_devices.mlip.support import supported_operations
from nnhal_devices.mlip.workload import LoadedModel, SimulatedWorkload

_ALIGNMENT = 128
"""Bytes, of the buffers of the part (DPDK, drivers/ml/cnxk)."""
_FRUGAL_TILES = 2
"""Tiles that a network may take if it is to save energy."""
