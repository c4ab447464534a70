"""IDevice without a transport: what a device does with models, for any driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, invalid_argument
from nnhal.extensions import element_sizes
from nnhal.memory import read_pools
from nnhal.resolved import ResolvedModel, describe_operation, inline_constants
from nnhal.types import (
    NO_DEADLINE,
    ErrorStatus,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    Model,
    OperandLifeTime,
    Priority,
    TokenValuePair,
)
from nnhal.types.layout import is_extension
from nnhal.validation import validate_model
from nnhal_devices.driver import Driver, PrepareOptions, Support, Supported, Unsupported
from nnhal_devices.host.clock import require_ahead
from nnhal_devices.host.counters import Counters
from nnhal_devices.host.hints import validate_hints
from nnhal_devices.host.prepared_model import PreparedModel
from nnhal_devices.host.scheduler import Scheduler

CACHE_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Preparation:
    """The arguments of a preparation besides its model, as they came: not checked yet."""

    preference: int = ExecutionPreference.FAST_SINGLE_ANSWER
    priority: int = Priority.MEDIUM
    deadline_ns: int = NO_DEADLINE
    token: bytes = bytes(CACHE_TOKEN_BYTES)
    hints: tuple[TokenValuePair, ...] = ()
    extension_names: tuple[ExtensionNameAndPrefix, ...] = ()


class Device:
    """One driver with its scheduler. Safe to use from several threads."""

    def __init__(self, driver: Driver, workers: int) -> None:
        self.driver = driver
        self.scheduler = Scheduler(workers)
        self.counters = Counters()

    def explain_support(self, model: Model) -> Sequence[Support]:
        """Whether each operation of main is supported, and if not, why. Raises INVALID_ARGUMENT."""
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
        """Whether each operation of main is supported as given. Raises INVALID_ARGUMENT."""
        return [isinstance(answer, Supported) for answer in self.explain_support(model)]

    def launch(self, model: Model, arguments: Preparation, client: object) -> Callable[[], PreparedModel]:
        """Check the arguments of a preparation and return the work that is left.

        Raises INVALID_ARGUMENT; the work raises HalError.
        """
        validate_model(model)
        options = validate_preparation(arguments)
        return lambda: self._prepare(model, options, client)

    def _prepare(self, model: Model, options: PrepareOptions, client: object) -> PreparedModel:
        resolved = resolve(model)
        for index, answer in enumerate(self._support(resolved)):
            if isinstance(answer, Unsupported):
                place = describe_operation(model.main.operations[index], index)
                invalid_argument(
                    f"{place} is not supported by {self.driver.name}: {answer.code}: got {answer.got}, "
                    f"allowed {answer.allowed}"
                )
        require_ahead(options.deadline_ns)
        workload = self.driver.prepare(resolved, options)
        return PreparedModel(
            resolved,
            workload,
            options.priority,
            self.driver.memory,
            self.scheduler,
            self.counters,
            client,
            element_sizes(model, self.driver.extensions),
        )

    def _extension(self, model: Model, index: int) -> Unsupported | None:
        """A refusal where an operation is of an extension that the driver does not have."""
        code = model.main.operations[index].type
        if not is_extension(code):
            return None
        names = {entry.prefix: entry.name for entry in model.extension_name_to_prefix}
        name = names[code >> 16]
        if name in {extension.name for extension in self.driver.extensions}:
            return None
        return Unsupported("OP", f"an operation of extension {name}", "operations of the base set")


def validate_preparation(arguments: Preparation) -> PrepareOptions:
    """Check the arguments of a preparation (rows PM-04, PM-05, PM-07, PM-08, PM-15). Raises INVALID_ARGUMENT."""
    if not 0 <= arguments.preference <= max(ExecutionPreference):
        invalid_argument(f"preference {arguments.preference}, expected 0 to {max(ExecutionPreference).value}")
    if not 0 <= arguments.priority <= max(Priority):
        invalid_argument(f"priority {arguments.priority}, expected 0 to {max(Priority).value}")
    if arguments.deadline_ns < NO_DEADLINE:
        invalid_argument(f"deadline {arguments.deadline_ns} ns, expected -1 or more")
    if len(arguments.token) != CACHE_TOKEN_BYTES:
        invalid_argument(f"a cache token of {len(arguments.token)} bytes, expected {CACHE_TOKEN_BYTES}")
    validate_hints(arguments.hints, arguments.extension_names)
    return PrepareOptions(
        ExecutionPreference(arguments.preference), Priority(arguments.priority), arguments.deadline_ns
    )


def resolve(model: Model) -> ResolvedModel:
    """A validated model with its constants. Raises GENERAL_FAILURE where a pool cannot be read."""
    used = {
        operand.location.pool_index
        for graph in (model.main, *model.referenced)
        for operand in graph.operands
        if operand.lifetime == OperandLifeTime.CONSTANT_POOL
    }
    return ResolvedModel(model, inline_constants(model, read_pools(model.pools, used)))
