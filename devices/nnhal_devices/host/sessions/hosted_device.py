"""IDevice without a transport, for any driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.extensions import element_sizes
from nnhal.memory import CopyBudget, MemoryGuard, faults_admitted
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.support import Support, Supported, Unsupported
from nnhal.types import (
    CACHE_TOKEN_BYTES,
    NO_DEADLINE,
    BufferRole,
    ErrorStatus,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    Model,
    NumberOfCacheFiles,
    OptimizationViews,
    Priority,
    TokenValuePair,
)
from nnhal.types.layout import Dimensions, is_extension
from nnhal.validation.request import validate_hints
from nnhal_devices.driver import Driver, PrepareOptions, RefusingDriver, RestoringDriver, SerialDriver, Workload
from nnhal_devices.host.memory.budget import DeviceMemoryBudget, HostMemory
from nnhal_devices.host.memory.counters import Counters
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.runs.hooks import NO_HOOKS, Hooks
from nnhal_devices.host.runs.launcher import Launcher
from nnhal_devices.host.runs.prepared_model import ModelOwner, PreparedModel
from nnhal_devices.host.runs.scheduler import Scheduler, require_ahead
from nnhal_devices.host.sessions import cache
from nnhal_devices.host.sessions.allocation import allocate
from nnhal_devices.host.sessions.cache import NO_CACHE, CacheFiles
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)


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

    unasked: bool = False
    """True if the client has not asked what is supported."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Answer of a device about each operation of main. ``operation_ns`` is empty without a cost model for the model."""

    support: Sequence[Support]
    operation_ns: Sequence[float]
    """Modelled nanoseconds, 0 for an operation that is not supported."""
    together: Sequence[Sequence[int]] = ()
    """Operations that it takes only together."""


class HostedDevice:
    """One driver with its scheduler and its memory. Safe to use from several threads."""

    def __init__(
        self,
        driver: Driver,
        settings: DeviceSettings,
        guard: MemoryGuard | None = None,
        hooks: Hooks = NO_HOOKS,
        make_prepared_model: Callable[..., PreparedModel] = PreparedModel,
    ) -> None:
        """``guard`` is that of the process, if files that may shrink are to be mapped.

        ``make_prepared_model`` is given the arguments of a PreparedModel.
        """
        self.driver = driver
        self.hooks = hooks
        self._make_prepared_model = make_prepared_model
        self._guard = guard if driver.memory.unlocked else None
        self.scheduler = Scheduler(settings.workers, isinstance(driver, SerialDriver) and driver.is_serial)
        self.launcher = Launcher(driver.backend.queue, settings.synchronous_fences, hooks)
        self.memory = DeviceMemoryBudget(
            settings.buffer_bytes, driver.backend.memory or HostMemory(driver.memory.alignment)
        )
        self.copies = CopyBudget(settings.model_bytes, "NNHAL_DEVICE_MODEL_BYTES")
        """What is copied of clients' files, and constants that prepared models hold."""
        self.counters = Counters(driver.backend.memory is not None and driver.backend.transfer_costs.is_wire)

    @property
    def maps_files(self) -> bool:
        """Return whether files of a tmpfs that may shrink are used in place."""
        return self._guard is not None

    def assess(self, model: ValidModel) -> Assessment:
        """Return whether each operation of main is supported, and its modelled cost. Raises GENERAL_FAILURE."""
        support = self._support(model)
        return Assessment(support, *self._costs(model, support))

    def supported_operations(self, model: ValidModel) -> list[bool]:
        """Return whether each operation of main is supported as given. Raises GENERAL_FAILURE."""
        return [isinstance(answer, Supported) for answer in self._support(model)]

    def optimize(self, model: ValidModel) -> OptimizationViews:
        """Have the driver optimise a subgraph. Raises INVALID_ARGUMENT if it does not support all of it."""
        self._require_support(model)
        return self.hooks.optimize(self.driver, model.resolved)

    def launch(self, model: ValidModel, arguments: Preparation, owner: ModelOwner) -> Callable[[], PreparedModel]:
        """Check the arguments of a preparation and return the work that is left.

        Raises INVALID_ARGUMENT, and DEVICE_UNAVAILABLE if the device drains; the work raises HalError.
        """
        self.scheduler.require_open()
        options = validate_preparation(arguments)
        if arguments.unasked and self.hooks.must_be_asked:
            invalid_argument("the device is to be asked what it supports: faults may have another answer told")
        is_cached = self._caches and arguments.cache.match(self.driver.number_of_cache_files)

        def prepare() -> PreparedModel:
            start = time.thread_time_ns()
            prepared = self._prepare(model, replace(options, is_cached=is_cached), owner)
            if is_cached:
                self._save(arguments.cache, model.resolved, options, prepared.workload, time.thread_time_ns() - start)
            return prepared

        return prepare

    def launch_from_cache(self, files: CacheFiles, deadline_ns: int, owner: ModelOwner) -> Callable[[], PreparedModel]:
        """Check the arguments of a preparation from a cache and return the work that is left.

        Raises INVALID_ARGUMENT, GENERAL_FAILURE if the driver does no caching, and DEVICE_UNAVAILABLE if the device
        drains; the work raises HalError.
        """
        self.scheduler.require_open()
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
            header = cache.read_header(files)
            restores = isinstance(self.driver, RestoringDriver)
            with self.copies.taken(2 * header.byte_size, "reading the cache files, of which some is copied,"):
                model, options = cache.load(files, header, self.driver.version, deadline_ns, self.copies, restores)
            try:
                return self._prepare(ValidModel.of(model, self.copies), options, owner)
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
        largest: Dimensions = (),
    ) -> DeviceBuffer:
        """Allocate a buffer that the device owns. Raises INVALID_ARGUMENT or GENERAL_FAILURE."""
        return allocate(dimensions, prepared_models, input_roles, output_roles, self.memory, self.counters, largest)

    @property
    def _caches(self) -> bool:
        return self.driver.number_of_cache_files != NumberOfCacheFiles()

    def _prepare(self, model: ValidModel, options: PrepareOptions, owner: ModelOwner) -> PreparedModel:
        # Threads that a library starts now, it will run in later, over guarded memory perhaps.
        with faults_admitted() if self._guard is not None else nullcontext():
            if options.artifact and isinstance(self.driver, RestoringDriver):
                workload = self._restored(self.driver, model, options)
            else:
                workload = self._compiled(model, options)
        resolved = model.resolved
        resolved.settled.clear()  # runs do not look at operations
        prepared = self._make_prepared_model(
            resolved,
            workload,
            options.priority,
            self.driver.memory,
            self.driver.backend.memory_manager,
            self.scheduler,
            self.counters,
            owner,
            element_sizes(model.model, self.driver.extensions),
            self._guard,
        )
        self.copies.charge_for(
            prepared, len(model.model.operand_values) + len(options.artifact), "the model's constants"
        )
        return prepared

    def _save(
        self, files: CacheFiles, model: ResolvedModel, options: PrepareOptions, workload: Workload, compile_ns: int
    ) -> None:
        replaced = self.driver.replaced_constants(model) if isinstance(self.driver, RestoringDriver) else ()
        cache.save(files, self.driver.version, model, options, workload, compile_ns, replaced)

    def _restored(self, driver: RestoringDriver, model: ValidModel, options: PrepareOptions) -> Workload:
        """Return the workload that an artifact holds. The model cannot be compiled, since it lacks constants."""
        require_ahead(options.deadline_ns)
        workload = self.hooks.restore(driver, model.resolved, options)
        if workload is None:
            general_failure("the cached compilation was made on another machine, or for other options of the device")
        self.counters.add_preparation(is_restored=True)
        return workload

    def _compiled(self, model: ValidModel, options: PrepareOptions) -> Workload:
        foreseen = self._foreseen(model)
        self._require(model, self._support(model) if foreseen is None else foreseen)
        require_ahead(options.deadline_ns)
        try:
            workload = self.hooks.prepare(self.driver, model.resolved, options)
        except Exception:
            if foreseen is not None:
                self._require_support(model)  # which says it in the words of an operation that is not supported
            raise
        self.counters.add_preparation(is_restored=False)
        return workload

    def _support(self, model: ValidModel) -> Sequence[Support]:
        return self._answered(model, model.support(self._ask))  # which may be kept, as what takes their place may not

    def _answered(self, model: ValidModel, answers: Sequence[Support]) -> Sequence[Support]:
        return self.hooks.support(model.model, answers)

    def _foreseen(self, model: ValidModel) -> Sequence[Support] | None:
        """Return what the driver can say of a model before it compiles it; None if it must be asked in full."""
        if not isinstance(self.driver, RefusingDriver) or model.knows_support:
            return None
        answers = self.driver.foreseen_support(model.resolved)
        return None if answers is None else self._answered(model, self._checked(model.model, answers))

    def _ask(self, resolved: ResolvedModel) -> Sequence[Support]:
        return self._checked(resolved.model, self.driver.supported_operations(resolved))

    def _checked(self, model: Model, answers: Sequence[Support]) -> Sequence[Support]:
        """Return the driver's answers, with operations refused of extensions that it does not have."""
        if len(answers) != len(model.main.operations):
            raise HalError(
                ErrorStatus.GENERAL_FAILURE,
                f"driver {self.driver.name} answered for {len(answers)} of {len(model.main.operations)} operations",
            )
        return [self._extension(model, index) or answer for index, answer in enumerate(answers)]

    def _costs(self, model: ValidModel, support: Sequence[Support]) -> tuple[Sequence[float], Sequence[Sequence[int]]]:
        """Return what each operation would cost, and which go together; nothing if that fails, which is logged."""
        backend = self.driver.backend
        try:
            costs = [
                cost if isinstance(answer, Supported) else 0.0
                for cost, answer in zip(backend.operation_ns(model.resolved), support, strict=True)
            ]
            return costs, backend.together(model.resolved)
        except Exception as error:
            _log.warning("a cost model failed", driver=self.driver.name, reason=repr(error))
            return (), ()

    def _require_support(self, model: ValidModel) -> None:
        self._require(model, self._support(model))

    def _require(self, model: ValidModel, answers: Sequence[Support]) -> None:
        for index, answer in enumerate(answers):
            if isinstance(answer, Unsupported):
                place = describe_operation(model.model, index)
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
    files = arguments.cache
    if files.token or files.model or files.data:
        _validate_token(files.token)
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
