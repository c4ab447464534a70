"""IDevice without a transport, for any driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.extensions import element_sizes
from nnhal.memory import read_pools
from nnhal.resolved import ResolvedModel, describe_operation, inline_constants
from nnhal.types import (
    CACHE_TOKEN_BYTES,
    NO_DEADLINE,
    BufferRole,
    ErrorStatus,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    Model,
    NumberOfCacheFiles,
    OperandLifeTime,
    Priority,
    TokenValuePair,
)
from nnhal.types.layout import Dimensions, is_extension
from nnhal.validation import validate_model
from nnhal_devices.backend import OptimizationViews
from nnhal_devices.driver import Driver, PrepareOptions, Support, Supported, Unsupported
from nnhal_devices.host import cache
from nnhal_devices.host.allocation import allocate
from nnhal_devices.host.cache import NO_CACHE, CacheFiles
from nnhal_devices.host.clock import require_ahead
from nnhal_devices.host.counters import Counters
from nnhal_devices.host.device_memory import DeviceBuffer
from nnhal_devices.host.hints import validate_hints
from nnhal_devices.host.launcher import Launcher
from nnhal_devices.host.memory_budget import DeviceMemoryBudget
from nnhal_devices.host.prepared_model import ModelOwner, PreparedModel
from nnhal_devices.host.scheduler import Scheduler
from nnhal_devices.host.settings import DeviceSettings


@dataclass(frozen=True, slots=True)
class Preparation:
    """The arguments of a preparation besides its model, as they were received: not checked yet."""

    preference: int = ExecutionPreference.FAST_SINGLE_ANSWER
    """An ExecutionPreference."""

    priority: int = Priority.MEDIUM
    """A Priority."""

    deadline_ns: int = NO_DEADLINE
    """An instant of CLOCK_BOOTTIME."""

    cache: CacheFiles = NO_CACHE
    """The files to save the compilation to."""

    hints: tuple[TokenValuePair, ...] = ()
    """Values for extensions of the driver."""

    extension_names: tuple[ExtensionNameAndPrefix, ...] = ()
    """The extensions that the prefixes of the hints' tokens stand for."""


class HostedDevice:
    """One driver with its scheduler and its memory. Safe to use from several threads."""

    def __init__(self, driver: Driver, settings: DeviceSettings) -> None:
        self.driver = driver
        self.scheduler = Scheduler(settings.workers)
        self.launcher = Launcher(driver.backend.queue, settings.synchronous_fences)
        self.memory = DeviceMemoryBudget(settings.buffer_bytes, driver.memory.alignment)
        self.counters = Counters()

    def explain_support(self, model: Model) -> Sequence[Support]:
        """Return whether each operation of main is supported, and if not, why. Raises INVALID_ARGUMENT."""
        validate_model(model)
        return self._support(resolve(model))

    def _support(self, resolved: ResolvedModel) -> Sequence[Support]:
        model = resolved.model
        answers = self.driver.supported_operations(resolved)
        if len(answers) != len(model.main.operations):
            raise HalError(
                ErrorStatus.GENERAL_FAILURE,
                f"driver {self.driver.name} answered for {len(answers)} of {len(model.main.operations)} operations",
            )
        return [self._extension(model, index) or answer for index, answer in enumerate(answers)]

    def supported_operations(self, model: Model) -> list[bool]:
        """Return whether each operation of main is supported as given. Raises INVALID_ARGUMENT."""
        return [isinstance(answer, Supported) for answer in self.explain_support(model)]

    def estimate_costs(self, model: Model) -> list[float]:
        """Return the modelled ns of each operation of main, 0 if it is not supported. Raises INVALID_ARGUMENT."""
        validate_model(model)
        resolved = resolve(model)
        costs = self.driver.backend.operation_ns(resolved)
        return [
            cost if isinstance(answer, Supported) else 0.0
            for cost, answer in zip(costs, self._support(resolved), strict=True)
        ]

    def optimize(self, model: Model) -> OptimizationViews:
        """Have the driver optimise a subgraph. Raises INVALID_ARGUMENT if it does not support all of it."""
        validate_model(model)
        resolved = resolve(model)
        self._require_support(resolved)
        return self.driver.backend.optimize(resolved)

    def launch(self, model: Model, arguments: Preparation, owner: ModelOwner) -> Callable[[], PreparedModel]:
        """Check the arguments of a preparation and return the work that is left.

        Raises INVALID_ARGUMENT; the work raises HalError.
        """
        validate_model(model)
        options = validate_preparation(arguments)

        def prepare() -> PreparedModel:
            resolved = resolve(model)
            prepared = self._prepare(resolved, options, owner)
            if self._caches and arguments.cache.match(self.driver.number_of_cache_files):
                cache.save(arguments.cache, self.driver.version, resolved, options)
            return prepared

        return prepare

    def launch_from_cache(self, files: CacheFiles, deadline_ns: int, owner: ModelOwner) -> Callable[[], PreparedModel]:
        """Check the arguments of a preparation from a cache and return the work that is left.

        Raises INVALID_ARGUMENT, and GENERAL_FAILURE if the driver does no caching; the work raises HalError.
        """
        _validate_instant(deadline_ns)
        _validate_token(files.token)
        if not self._caches:
            general_failure(f"{self.driver.name} does no compilation caching")
        needed = self.driver.number_of_cache_files
        if not files.match(needed):
            invalid_argument(
                f"{len(files.model)} model-cache and {len(files.data)} data-cache files, expected "
                f"{needed.num_model_cache} and {needed.num_data_cache}"
            )

        def prepare() -> PreparedModel:
            require_ahead(deadline_ns)
            model, options = cache.load(files, self.driver.version, deadline_ns)
            try:
                validate_model(model)
                return self._prepare(resolve(model), options, owner)
            except HalError as error:
                if error.status != ErrorStatus.INVALID_ARGUMENT:
                    raise
                general_failure(f"the cached model is not valid: {error.message}")

        return prepare

    def allocate(
        self,
        dimensions: Dimensions,
        prepared_models: Sequence[PreparedModel],
        input_roles: Sequence[BufferRole],
        output_roles: Sequence[BufferRole],
    ) -> DeviceBuffer:
        """Allocate a buffer that the device owns. Raises INVALID_ARGUMENT or GENERAL_FAILURE."""
        return allocate(dimensions, prepared_models, input_roles, output_roles, self.memory, self.counters)

    @property
    def _caches(self) -> bool:
        return self.driver.number_of_cache_files != NumberOfCacheFiles()

    def _prepare(self, resolved: ResolvedModel, options: PrepareOptions, owner: ModelOwner) -> PreparedModel:
        model = resolved.model
        self._require_support(resolved)
        require_ahead(options.deadline_ns)
        workload = self.driver.prepare(resolved, options)
        return PreparedModel(
            resolved,
            workload,
            options.priority,
            self.driver.memory,
            self.driver.backend.memory_manager,
            self.scheduler,
            self.counters,
            owner,
            element_sizes(model, self.driver.extensions),
        )

    def _require_support(self, resolved: ResolvedModel) -> None:
        for index, answer in enumerate(self._support(resolved)):
            if isinstance(answer, Unsupported):
                place = describe_operation(resolved.model.main.operations[index], index)
                invalid_argument(
                    f"{place} is not supported by {self.driver.name}: {answer.code}: got {answer.got}, "
                    f"allowed {answer.allowed}"
                )

    def _extension(self, model: Model, index: int) -> Unsupported | None:
        """Refuse an operation of an extension that the driver does not have."""
        code = model.main.operations[index].type
        if not is_extension(code):
            return None
        names = {entry.prefix: entry.name for entry in model.extension_name_to_prefix}
        name = names[code >> 16]
        if name in {extension.name for extension in self.driver.extensions}:
            return None
        return Unsupported("OP", f"an operation of extension {name}", "operations of the base set")


def validate_preparation(arguments: Preparation) -> PrepareOptions:
    """Check a preparation's arguments (contract rows PM-04, PM-05, PM-07, PM-08, PM-15). Raises INVALID_ARGUMENT."""
    if not 0 <= arguments.preference <= max(ExecutionPreference):
        invalid_argument(f"preference {arguments.preference}, expected 0 to {max(ExecutionPreference).value}")
    if not 0 <= arguments.priority <= max(Priority):
        invalid_argument(f"priority {arguments.priority}, expected 0 to {max(Priority).value}")
    _validate_instant(arguments.deadline_ns)
    _validate_token(arguments.cache.token)
    validate_hints(arguments.hints, arguments.extension_names)
    return PrepareOptions(
        ExecutionPreference(arguments.preference), Priority(arguments.priority), arguments.deadline_ns
    )


def _validate_instant(deadline_ns: int) -> None:
    if deadline_ns < NO_DEADLINE:
        invalid_argument(f"deadline {deadline_ns} ns, expected -1 or more")


def _validate_token(token: bytes) -> None:
    if len(token) != CACHE_TOKEN_BYTES:
        invalid_argument(f"a cache token of {len(token)} bytes, expected {CACHE_TOKEN_BYTES}")


def resolve(model: Model) -> ResolvedModel:
    """Resolve the constants of a validated model. Raises GENERAL_FAILURE if a pool cannot be read."""
    used = {
        operand.location.pool_index
        for graph in (model.main, *model.referenced)
        for operand in graph.operands
        if operand.lifetime == OperandLifeTime.CONSTANT_POOL
    }
    return ResolvedModel(model, inline_constants(model, read_pools(model.pools, used)))
