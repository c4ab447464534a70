"""The driver of null: the whole interface, and no operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from nnhal.errors import general_failure
from nnhal.resolved import ResolvedModel
from nnhal.support import Support, Unsupported
from nnhal.types import Capabilities, DeviceType, Extension, NumberOfCacheFiles, PerformanceInfo
from nnhal_devices.backend import Backend, MemoryRules
from nnhal_devices.driver import DriverOptions, PrepareOptions, Workload

_AS_THE_CPU = PerformanceInfo(exec_time=1.0, power_usage=1.0)


@final
class Null:
    """A device that supports no operation."""

    name = "null"
    version = "nnhal-null-0.1.0"
    type = DeviceType.OTHER
    capabilities = Capabilities(_AS_THE_CPU, _AS_THE_CPU, (), _AS_THE_CPU, _AS_THE_CPU)
    memory = MemoryRules()
    modelled_timing = False
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles()
    backend = Backend(lambda model: [0.0] * len(model.model.main.operations), realisation="nothing")

    def __init__(self, options: DriverOptions) -> None:
        options.require_known(self.name)
        self._options = options

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        """Refuse every operation."""
        return [
            Unsupported("NO_IMPL", "any operation", "none", "null is a template; take another device")
            for _ in model.model.main.operations
        ]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        """Refuse. The host never calls this, since no model is supported."""
        general_failure("null prepares no model")
