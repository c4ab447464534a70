"""Prepared models, and how requests are bound to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from nnhal.errors import invalid_argument
from nnhal.memory import GuardedPool, GuardedRegion, MemoryGuard, Pool, open_pool
from nnhal.resolved import ResolvedModel
from nnhal.types import MAX_LOOP_TIMEOUT_NS, ExecutionConfig, Memory, Priority, Request, RequestArgument
from nnhal.types.layout import Dimensions
from nnhal.validation import validate_request
from nnhal.validation.request import validate_hints
from nnhal_devices.backend import MemoryManager, MemoryRules
from nnhal_devices.driver import Argument, Workload
from nnhal_devices.host.memory.arguments import BoundArguments, BufferUse, BufferUses, empty_argument
from nnhal_devices.host.memory.counters import Counters
from nnhal_devices.host.memory.device_memory import ArgumentRole, DeviceBuffer
from nnhal_devices.host.memory.staging import Staged, UsedPool, kind_of, locate
from nnhal_devices.host.runs.bound_run import RunOwner
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.scheduler import Scheduler

PoolOpener = Callable[[int, Memory, bool], Pool]
"""Opens a pool of a request, given its index, its memory, and whether it will be written."""


class ModelOwner(RunOwner, Protocol):
    """The session that a prepared model belongs to."""

    def buffer(self, token: int) -> DeviceBuffer:
        """Return the device buffer that a token names. Raises INVALID_ARGUMENT."""
        ...


class PreparedModel:
    """A workload of one client, with what its executions need to be admitted."""

    kind: ClassVar[str] = "prepared model"

    def __init__(
        self,
        model: ResolvedModel,
        workload: Workload,
        priority: Priority,
        rules: MemoryRules,
        memory_manager: MemoryManager | None,
        scheduler: Scheduler,
        counters: Counters,
        owner: ModelOwner,
        element_sizes: Mapping[int, int] | None = None,
        guard: MemoryGuard | None = None,
    ) -> None:
        """``element_sizes`` are those of the model's extension types, by operand code.

        With a ``guard``, files that may shrink are mapped if the rules permit that.
        """
        self.model = model
        self.element_sizes = element_sizes or {}
        self.workload = workload
        self.priority = priority
        self.rules = rules
        self.memory_manager = memory_manager
        self.scheduler = scheduler
        self.counters = counters
        self.owner = owner
        self.guard = guard if rules.unlocked else None
        self.identity = object()
        """What roles of device buffers refer to: they must not keep the workload alive."""

    @property
    def begins_at_once(self) -> bool:
        """Return whether an execution would wait for nothing now, neither for a worker nor for working memory."""
        return self.memory_manager is None and self.scheduler.has_free_worker

    def bind(
        self,
        request: Request,
        config: ExecutionConfig,
        opener: PoolOpener | None = None,
        allow_unspecified_output: bool = True,
    ) -> Execution:
        """Bind a request to memory. ``opener`` opens its pools; by default each bind opens them again.

        Raises INVALID_ARGUMENT if request or config are invalid, GENERAL_FAILURE if a pool cannot be used.
        """
        validate_config(config)
        shape = validate_request(self.model.model, request, allow_unspecified_output)
        inputs = _Arguments(self, request, request.inputs, shape.inputs, is_output=False)
        outputs = _Arguments(self, request, request.outputs, shape.outputs, is_output=True)
        uses = BufferUses(inputs.uses, outputs.uses) if inputs.uses or outputs.uses else None
        pools = _open(request, opener or self._open_again)
        inputs.place(pools)
        outputs.place(pools)
        guarded = tuple({*inputs.guarded, *outputs.guarded})
        used = tuple(pools.values())
        arguments = BoundArguments(
            inputs.arguments, outputs.arguments, inputs.staged, outputs.staged, uses, guarded, used
        )
        return self.make_execution(request, pools, arguments, config)

    def make_execution(
        self, request: Request, pools: Mapping[int, UsedPool], arguments: BoundArguments, config: ExecutionConfig
    ) -> Execution:
        """Make the execution of a request that was bound. ``pools`` are those of shared memory, by index."""
        del request, pools  # whoever records executions looks at them
        return Execution(self, arguments, config)

    def open_pool(self, memory: Memory, writable: bool) -> Pool:
        """Open a pool for requests of this model. Raises GENERAL_FAILURE if it cannot be used."""
        return open_pool(memory, writable, self.guard)

    def _open_again(self, index: int, memory: Memory, writable: bool) -> Pool:
        del index
        return self.open_pool(memory, writable)


class _Arguments:
    """The inputs or the outputs of a request, while they are bound to memory."""

    def __init__(
        self,
        prepared: PreparedModel,
        request: Request,
        arguments: Sequence[RequestArgument],
        dimensions: Sequence[Dimensions],
        is_output: bool,
    ) -> None:
        """Find those that lie in device memory. Raises INVALID_ARGUMENT if a token names no buffer."""
        self._rules = prepared.rules
        self._request = request
        self._given = list(zip(arguments, dimensions, strict=True))
        self.arguments: list[Argument] = []
        self.staged: list[Staged] = []
        self.guarded: list[GuardedRegion] = []
        self.uses: list[BufferUse] = []
        for index, (argument, known) in enumerate(self._given):
            pool = None if argument.has_no_value else request.pools[argument.location.pool_index]
            if isinstance(pool, int):
                role = ArgumentRole(prepared.identity, is_output, index)
                self.uses.append(BufferUse(role, prepared.owner.buffer(pool), known))

    def place(self, pools: Mapping[int, UsedPool]) -> None:
        """Find the memory of each argument. Raises INVALID_ARGUMENT."""
        for argument, dimensions in self._given:
            self.arguments.append(self._place(argument, dimensions, pools))

    def _place(self, argument: RequestArgument, dimensions: Dimensions, pools: Mapping[int, UsedPool]) -> Argument:
        if argument.has_no_value:
            return Argument(None, dimensions)
        index = argument.location.pool_index
        memory = self._request.pools[index]
        if isinstance(memory, int):
            return empty_argument(dimensions)
        pool = pools[index].pool
        found = locate(memory, pool, argument.location, self._rules)
        if isinstance(found, Staged):
            self.staged.append(found)
            return Argument(found.data, dimensions)
        if isinstance(pool, GuardedPool):
            self.guarded.append(pool.region)
        return Argument(found, dimensions)


def _open(request: Request, opener: PoolOpener) -> dict[int, UsedPool]:
    """The pools of shared memory that a request uses, by index."""
    used = {a.location.pool_index for a in request.inputs + request.outputs if not a.has_no_value}
    written = {a.location.pool_index for a in request.outputs if not a.has_no_value}
    return {
        index: UsedPool(kind_of(memory), opener(index, memory, index in written))
        for index in used
        if not isinstance(memory := request.pools[index], int)
    }


def validate_config(config: ExecutionConfig) -> None:
    """Check an execution's config (contract rows RQ-13, RE-07, PM-15). Raises INVALID_ARGUMENT."""
    if not -1 <= config.loop_timeout_duration_ns <= MAX_LOOP_TIMEOUT_NS:
        invalid_argument(f"loop timeout {config.loop_timeout_duration_ns} ns, expected -1 to {MAX_LOOP_TIMEOUT_NS}")
    validate_hints(config.execution_hints, config.extension_name_to_prefix)
