"""The driver of a backend in a shared object of C, whose interface is nnhal_backend.h.

The library is called without the interpreter's lock. What it breaks, it breaks in this process: a device's own.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, final

from nnhal.errors import HalError
from nnhal.extensions import type_in_words
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import (
    Capabilities,
    DeviceType,
    Extension,
    FailedSubgraph,
    NumberOfCacheFiles,
    Operation,
    OperationType,
    OptimizationViews,
    PerformanceInfo,
    Substitution,
    TransferCosts,
)
from nnhal.types.layout import is_extension
from nnhal_devices.backend import Backend, MemoryRules, untouched
from nnhal_devices.cpu_ref.performance import ROOFLINE
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.dynamic.c_interface import (
    MOST_DIMENSIONS,
    MOST_WORDS,
    CGroup,
    CPreparation,
    CReason,
    DescribedModel,
    backend_at,
    options_of,
)
from nnhal_devices.dynamic.c_workload import CWorkload, require_done, said, workload_class

_BRANCHES = (OperationType.IF, OperationType.WHILE)
_ALIGNMENT = 64


@final
class CDriver:
    """A device whose library computes in the caller's memory."""

    extensions: tuple[Extension, ...] = ()

    def __init__(self, name: str, path: Path, factory: Callable[[], int | None], options: DriverOptions) -> None:
        """``factory`` is the library's BackendFactory. Raises ValueError if what it returns is no backend."""
        address = factory()
        if not address:
            raise ValueError("BackendFactory returned NULL")
        self._c: Final[Any] = backend_at(address)
        self.name = name
        self.version = _text(self._c.version)
        self.type = DeviceType(self._c.device_type)
        self.is_serial = bool(self._c.is_serial)
        self.modelled_timing = bool(self._c.is_modelled)
        self.memory = MemoryRules(alignment=self._c.alignment or _ALIGNMENT, unlocked=True)
        self.number_of_cache_files = NumberOfCacheFiles(1, 1) if self._c.save else NumberOfCacheFiles()
        speed = PerformanceInfo(self._c.exec_time, self._c.power_usage)
        self.capabilities = Capabilities(speed, speed, (), speed, speed)
        self.backend = Backend(
            self._operation_ns,
            transfer_costs=_costs(self._c),
            optimize=self._optimize if self._c.optimize else untouched,
            memory_manager=_CMemory(self._c) if self._c.acquire_memory else None,
            context=_CContext(self._c) if any(getattr(self._c, notice) for notice in _NOTICES) else None,
            queue=_CQueue(self._c) if self._c.enqueue else None,
            realisation=_text(self._c.realisation) or f"the library {path.name} on this machine",
        )
        self._workload = workload_class(self._c)
        self._configure(options)

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        described = _described(model)
        operations = enumerate(model.model.main.operations)
        return [_hidden(model, each) or self._support(described, number) for number, each in operations]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> CWorkload:
        """Have the library make a workload. Raises HalError with the library's status and words."""
        options.check()
        described, handle = _described(model), ctypes.c_void_p()
        made = ctypes.byref(handle)
        if self._c.compile:
            how = ctypes.byref(_preparation(options))
            require_done(lambda words: self._c.compile(self._c.self, described.pointer, how, made, words))
        else:
            require_done(lambda words: self._c.prepare(self._c.self, described.pointer, made, words))
        return self._workload(self._c, handle.value, described)

    def _configure(self, options: DriverOptions) -> None:
        if not self._c.configure:
            options.require_known(self.name)
            return
        given = options_of(options.threads, options.extra)
        try:
            require_done(lambda words: self._c.configure(self._c.self, ctypes.byref(given), words))
        except HalError as error:
            raise ValueError(error.message) from None

    def _support(self, described: DescribedModel, number: int) -> Support:
        if self._c.assess:
            reason = CReason()
            if self._c.assess(self._c.self, described.pointer, number, ctypes.byref(reason)):
                return SUPPORTED
            code, got, allowed, hint = (said(getattr(reason, part)) for part, _ in CReason._fields_)
            return Unsupported(code or "OP", got or "this operation", allowed or f"what {self.version} takes", hint)
        words = ctypes.create_string_buffer(MOST_WORDS)
        if self._c.supports(self._c.self, described.pointer, number, words):
            return SUPPORTED
        return Unsupported("OP", said(words) or "this operation", f"what {self.version} takes")

    def _operation_ns(self, model: ResolvedModel) -> Sequence[float]:
        if not self._c.operation_ns:
            return [each * self._c.exec_time for each in ROOFLINE.operation_ns(model)]
        described = _described(model)
        numbers = range(len(model.model.main.operations))
        return [self._c.operation_ns(self._c.self, described.pointer, number) for number in numbers]

    def _optimize(self, model: ResolvedModel) -> OptimizationViews:
        """Raises HalError with the library's status and words."""
        described, count = _described(model), len(model.model.main.operations)
        group_of, groups = (ctypes.c_uint32 * count)(), (CGroup * count)()
        require_done(lambda words: self._c.optimize(self._c.self, described.pointer, group_of, groups, words))
        members: defaultdict[int, list[int]] = defaultdict(list)
        for number, group in enumerate(group_of):
            members[group if group <= count else 0].append(number)
        alone = tuple(members.pop(0, ()))
        found = [
            (groups[group - 1].is_failed, tuple(members[group]), said(groups[group - 1].words)) for group in members
        ]
        return OptimizationViews(
            tuple(Substitution(operations, words) for is_failed, operations, words in found if not is_failed),
            tuple(FailedSubgraph(operations, words) for is_failed, operations, words in found if is_failed),
            alone,
        )


_NOTICES = ("before_load_network", "after_load_network", "before_unload_network", "after_unload_network")


class _CContext:
    """The notices that the library takes."""

    def __init__(self, backend: Any) -> None:
        self._c = backend

    def before_load_network(self, network: int) -> None:
        self._notify(self._c.before_load_network, network)

    def after_load_network(self, network: int) -> None:
        self._notify(self._c.after_load_network, network)

    def before_unload_network(self, network: int) -> None:
        self._notify(self._c.before_unload_network, network)

    def after_unload_network(self, network: int) -> None:
        self._notify(self._c.after_unload_network, network)

    def _notify(self, function: Callable[[int | None, int], None] | None, network: int) -> None:
        if function:
            function(self._c.self, network)


class _CMemory:
    """The library's working memory."""

    def __init__(self, backend: Any) -> None:
        self._c = backend

    def acquire(self) -> None:
        require_done(lambda words: self._c.acquire_memory(self._c.self, words))

    def release(self) -> None:
        self._c.release_memory(self._c.self)


class _CQueue:
    """The library's command queue."""

    def __init__(self, backend: Any) -> None:
        self._c = backend

    def sync(self) -> None:
        require_done(lambda words: self._c.sync(self._c.self, words))


def _described(model: ResolvedModel) -> DescribedModel:
    return DescribedModel(model, propagate_dimensions(model))


def _preparation(options: PrepareOptions) -> CPreparation:
    """The options for C. The artifact must outlive the structure."""
    artifact = ctypes.cast(ctypes.c_char_p(options.artifact or None), ctypes.c_void_p)
    given = options.preference, options.priority, options.deadline_ns
    return CPreparation(*given, artifact, len(options.artifact), options.is_cached)


def _costs(backend: Any) -> TransferCosts:
    if not backend.costs:
        return TransferCosts()
    costs = backend.costs.contents
    return TransferCosts(costs.hop_ns, costs.sync_ns, costs.import_ns, costs.copy_ns_per_byte)


def _text(given: bytes | None) -> str:
    return (given or b"").decode(errors="replace")


def _hidden(model: ResolvedModel, operation: Operation) -> Unsupported | None:
    """Return why the library is not asked about an operation; None if it is."""
    if is_extension(operation.type):
        return Unsupported("OP", type_in_words(model.model, operation.type), "operations of the HAL itself")
    if operation.type in _BRANCHES:
        return Unsupported("OP", OperationType(operation.type).name, "operations without graphs of their own")
    known = propagate_dimensions(model)
    rank = max(len(known[operand]) for operand in (*operation.inputs, *operation.outputs))
    if rank > MOST_DIMENSIONS:
        return Unsupported("RANK", str(rank), f"at most {MOST_DIMENSIONS}")
    return None
