"""Prepared models, and requests bound to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import Pool, open_pool
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    NO_DEADLINE,
    ExecutionConfig,
    ExecutionResult,
    Memory,
    OutputShape,
    Priority,
    Request,
    RequestArgument,
    Timing,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, combine, describe, is_extension
from nnhal.validation import validate_request
from nnhal_devices.driver import (
    DEFAULT_LOOP_TIMEOUT_NS,
    DONE,
    Argument,
    BoundWorkload,
    Control,
    MemoryRules,
    Outcome,
    Workload,
)
from nnhal_devices.host.clock import require_ahead
from nnhal_devices.host.counters import Counters
from nnhal_devices.host.hints import validate_hints
from nnhal_devices.host.scheduler import Scheduler
from nnhal_devices.host.staging import NO_STAGING, Staged, Staging, copy_in, copy_out, locate

MAX_LOOP_TIMEOUT_NS = 15_000_000_000
SUCCESS = ExecutionResult()
_PLAIN_SUCCESS = (SUCCESS, NO_STAGING)
PoolOpener = Callable[[int, Memory, bool], Pool]
"""Opens a pool of a request: its index, what it is, and whether it is to be written."""


class PreparedModel:
    """A workload of one client, with what its executions need to be admitted."""

    def __init__(
        self,
        model: ResolvedModel,
        workload: Workload,
        priority: Priority,
        rules: MemoryRules,
        scheduler: Scheduler,
        counters: Counters,
        client: object,
        element_sizes: Mapping[int, int] | None = None,
    ) -> None:
        """``element_sizes`` are those of the model's extension types, by operand code."""
        self.model = model
        self.element_sizes = element_sizes or {}
        self.workload = workload
        self.priority = priority
        self.rules = rules
        self.scheduler = scheduler
        self.counters = counters
        self.client = client

    def bind(self, request: Request, config: ExecutionConfig, opener: PoolOpener | None = None) -> BoundRequest:
        """Tie a request to memory. ``opener`` opens its pools, anew by default.

        Raises INVALID_ARGUMENT where request or config are not valid, GENERAL_FAILURE where a pool cannot be used.
        """
        validate_config(config)
        shape = validate_request(self.model.model, request)
        pools = _open(request, opener or _open_anew)

        def place(argument: RequestArgument, dimensions: Dimensions) -> tuple[Argument, Staged | None]:
            if argument.has_no_value:
                return Argument(None, dimensions), None
            memory = request.pools[argument.location.pool_index]
            if isinstance(memory, int):  # refused when the pools were opened
                general_failure("a device token where memory was expected")
            found = locate(memory, pools[argument.location.pool_index], argument.location, self.rules)
            return (
                (Argument(found.data, dimensions), found)
                if isinstance(found, Staged)
                else (Argument(found, dimensions), None)
            )

        inputs = [place(a, d) for a, d in zip(request.inputs, shape.inputs, strict=True)]
        outputs = [place(a, d) for a, d in zip(request.outputs, shape.outputs, strict=True)]
        return BoundRequest(
            self,
            self.workload.bind([argument for argument, _ in inputs], [argument for argument, _ in outputs]),
            [argument for argument, _ in outputs],
            [staged for _, staged in inputs if staged],
            [staged for _, staged in outputs if staged],
            config,
        )


def _open(request: Request, opener: PoolOpener) -> dict[int, Pool]:
    """The pools that a request uses, by index."""
    used = {a.location.pool_index for a in request.inputs + request.outputs if not a.has_no_value}
    written = {a.location.pool_index for a in request.outputs if not a.has_no_value}
    pools: dict[int, Pool] = {}
    for index in used:
        memory = request.pools[index]
        if isinstance(memory, int):
            invalid_argument(f"pool {index} of the request is token {memory}, which names no buffer of this device")
        pools[index] = opener(index, memory, index in written)
    return pools


def _open_anew(index: int, memory: Memory, writable: bool) -> Pool:
    del index
    return open_pool(memory, writable)


def validate_config(config: ExecutionConfig) -> None:
    """Check what an execution is given besides its request (rows RQ-13, RE-07, PM-15)."""
    if not -1 <= config.loop_timeout_duration_ns <= MAX_LOOP_TIMEOUT_NS:
        invalid_argument(f"loop timeout {config.loop_timeout_duration_ns} ns, expected -1 to {MAX_LOOP_TIMEOUT_NS}")
    validate_hints(config.execution_hints, config.extension_name_to_prefix)


class BoundRequest:
    """A request tied to memory, ready to run any number of times, once at a time."""

    def __init__(
        self,
        prepared: PreparedModel,
        workload: BoundWorkload,
        outputs: Sequence[Argument],
        staged_inputs: Sequence[Staged],
        staged_outputs: Sequence[Staged],
        config: ExecutionConfig,
    ) -> None:
        self.prepared = prepared
        self._workload = workload
        self._outputs = outputs
        self._staged_inputs = staged_inputs
        self._staged_outputs = staged_outputs
        self._measure = config.measure_timing
        self._plain = not (config.measure_timing or staged_inputs or staged_outputs)
        timeout = config.loop_timeout_duration_ns
        self._unbounded = Control(NO_DEADLINE, DEFAULT_LOOP_TIMEOUT_NS if timeout == -1 else timeout)
        self._busy = threading.Lock()

    def run(self, deadline_ns: int) -> tuple[ExecutionResult, Staging]:
        """Run it once. Raises HalError: GENERAL_FAILURE where it runs already."""
        control = self._unbounded if deadline_ns == NO_DEADLINE else self._bounded(deadline_ns)
        if not self._busy.acquire(False):
            general_failure("the execution runs already; one at a time is allowed")
        try:
            started = time.perf_counter_ns() if self._measure else 0
            prepared = self.prepared
            scheduler = prepared.scheduler
            scheduler.enter(prepared.client, prepared.priority, deadline_ns)
            try:
                return self._run(control, started)
            finally:
                scheduler.leave()
        finally:
            self._busy.release()

    def _bounded(self, deadline_ns: int) -> Control:
        if deadline_ns < NO_DEADLINE:
            invalid_argument(f"deadline {deadline_ns} ns, expected -1 or more")
        require_ahead(deadline_ns)
        return Control(deadline_ns, self._unbounded.loop_timeout_ns)

    def _run(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        if self._plain:
            outcome = self._workload.run(control)
            if outcome is DONE:
                return _PLAIN_SUCCESS
            return self._conclude(outcome, NO_STAGING)
        staging = Staging() if self._staged_inputs or self._staged_outputs else NO_STAGING
        if self._staged_inputs:
            copy_in(self._staged_inputs, staging)
        begun = time.perf_counter_ns()
        outcome = self._workload.run(control)
        on_device = time.perf_counter_ns() - begun if outcome.time_on_device_ns is None else outcome.time_on_device_ns
        result, staging = self._conclude(outcome, staging)
        if self._measure and result.output_sufficient_size:
            driver = time.perf_counter_ns() - started
            result = replace(result, timing=Timing(on_device, driver))
        return result, staging

    def _conclude(self, outcome: Outcome, staging: Staging) -> tuple[ExecutionResult, Staging]:
        """Hand the outputs over, where all of them fit, and say what they are."""
        shapes = self._shapes(outcome) if outcome.dimensions else ()
        sufficient = all(shape.is_sufficient for shape in shapes)
        if self._staged_outputs and sufficient:
            copy_out(self._staged_outputs, staging)
        if staging is not NO_STAGING:
            self.prepared.counters.add_staged(staging.bytes)
        return (ExecutionResult(sufficient, shapes) if shapes else SUCCESS), staging

    def _shapes(self, outcome: Outcome) -> tuple[OutputShape, ...]:
        return tuple(
            self._shape(number, dimensions, argument)
            for number, (dimensions, argument) in enumerate(zip(outcome.dimensions, self._outputs, strict=False))
        )

    def _shape(self, number: int, dimensions: Dimensions, argument: Argument) -> OutputShape:
        if combine(argument.dimensions, dimensions) is None and 0 not in dimensions:
            general_failure(
                f"output {number} has dimensions {describe(dimensions)}, model and request say "
                f"{describe(argument.dimensions)}"
            )
        main = self.prepared.model.model.main
        code = main.operands[main.output_indexes[number]].type
        if argument.data is None:
            return OutputShape(dimensions)
        element = self.prepared.element_sizes.get(code, 0) if is_extension(code) else ELEMENT_TYPES[code].itemsize
        return OutputShape(dimensions, element * prod(dimensions) <= len(argument.data))
