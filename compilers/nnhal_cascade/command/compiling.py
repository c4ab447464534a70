"""From what a user asks for to schedules, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnhal.given_files import parse_toml
from nnhal_cascade.command import formatting
from nnhal_cascade.command.network import Network
from nnhal_cascade.command.report import MisfitReport
from nnhal_cascade.command.schedule_report import bound_report, schedule_report, system_report
from nnhal_cascade.compiler import (
    CompilerOptions,
    DoesNotFitError,
    Frontier,
    compile_graph,
    frontier,
    least_memory,
)
from nnhal_cascade.hardware.accelerators import accelerator
from nnhal_cascade.hardware.memory import Content, System
from nnhal_cascade.hardware.memory_file import parse_size, read_system, system_for, system_from
from nnhal_cascade.schedule.replay import replay
from nnhal_cascade.schedule.schedule import Schedule

DEFAULT_DEVICE = "u55-128"


@dataclass(frozen=True, slots=True)
class CascadeRequest:
    """Options of one call of the command."""

    system: System
    budget: int
    """Bytes of the working memory, at most the size of its region."""
    search: CompilerOptions = field(default_factory=CompilerOptions)
    """Further options of the compiler."""

    @property
    def options(self) -> CompilerOptions:
        """The options of the compiler, with the budget."""
        return replace(self.search, budget=self.budget)


@dataclass(frozen=True, slots=True)
class Compilation:
    """Result of the compiler."""

    schedule: Schedule
    """The fastest that fits the budget."""
    frontier: Frontier | None
    """The best schedules whatever the budget; None if they were not asked for."""


class MisfitError(ValueError):
    """A network does not fit. The message says what would."""

    def __init__(self, report: MisfitReport, taken: str = "") -> None:
        """``taken`` says how the budget came to be what is left of another."""
        less = ""
        if report.least_with_recompute < report.least:
            less = formatting.least(report.least_with_recompute, None, report.bound_with_recompute)
            less = f"; --recompute reaches {less}"
        super().__init__(
            f"{report.model} does not fit {formatting.size(report.budget)} of {report.system.working}: "
            f"the least found is {formatting.least(report.least, report.parts, report.bound, report.where)}{less}"
            + (f". The budget is {taken}" if taken else "")
        )
        self.report = report


def chosen_system(
    device: str, memory: Path | None, settings: Sequence[str] = (), block: str | None = None, region: str | None = None
) -> System:
    """Return the system of a device by name, or that of a file of memories, around the device if both are given.

    ``settings`` change single values of it, ``block`` is the only one of the NPU, and ``region`` is where cascades have
    their buffers.

    Raises:
        OSError: the file cannot be read.
        ValueError: the device is unknown, the file does not describe a system, or one of the others is wrong.
    """
    system = system_for(device or DEFAULT_DEVICE) if memory is None else read_system(memory)
    if memory is not None and device:
        system = replace(system, accelerator=accelerator(device))
    system = changed(system, settings)
    if region is not None:
        system = _working_in(system, region)
    if block is not None:
        system = replace(system, accelerator=system.accelerator.with_block(block))
    return system


def _working_in(system: System, name: str) -> System:
    """A system whose working memory is the region of a name."""
    possible = [each for each in system.regions if Content.ACTIVATIONS in each.holds and each != system.constants]
    chosen = next((each for each in possible if each.name == name), None)
    if chosen is None:
        names = ", ".join(each.name for each in possible)
        raise ValueError(
            f"--cascade-region: got {name!r}, expected a memory of {system.name} that may hold activations and is not "
            f"where constants lie at rest: {names}"
        )
    return replace(system, regions=(chosen, *(each for each in system.regions if each is not chosen)))


def chosen_budget(size: str | None, system: System) -> int:
    """Return the bytes of a size such as ``240KiB``, at most the working memory's. Raises ValueError if it is none."""
    return min(parse_size(size), system.working.size) if size is not None else system.working.size


def chosen_search(
    system: System,
    max_parts: int | None,
    recompute: bool,
    stripe_factors: int | None,
    always_copy_size: str | None,
    max_proposals: int | None,
) -> CompilerOptions:
    """Return what is searched. Raises ValueError if a size is none, or constants cannot be copied."""
    copied = 0
    if always_copy_size is not None:
        copied = parse_size(always_copy_size)
        if Content.CONSTANTS not in system.working.holds:
            raise ValueError(f"--always-copy-size: got {copied} bytes, but {system.working.name} holds no constants")
    return CompilerOptions(None, max_parts, recompute, stripe_factors, copied, max_proposals)


def compile_network(network: Network, request: CascadeRequest, with_frontier: bool) -> Compilation:
    """Compile a network. Raises MisfitError if nothing fits the budget."""
    every = frontier(network.graph, request.system, request.search) if with_frontier else None
    chosen = next((each for each in every.points if each.peak <= request.budget), None) if every else None
    return Compilation(chosen or _fastest(network, request), every)


def _fastest(network: Network, request: CascadeRequest) -> Schedule:
    try:
        return compile_graph(network.graph, request.system, request.options)
    except DoesNotFitError as error:
        raise MisfitError(_misfit(network, request, error)) from error


def _misfit(network: Network, request: CascadeRequest, error: DoesNotFitError) -> MisfitReport:
    """Tell what is the least, and where; also with recomputing, if that was not asked for."""
    least, smallest, recompute = error.least, error.smallest, request.search.recompute
    peak = schedule_report(network.name, least, smallest, replay(smallest)).peak_plan
    recomputing = least
    if not recompute:
        recomputing = least_memory(network.graph, request.system, replace(request.search, recompute=True))
    return MisfitReport(
        network.name,
        system_report(request.system),
        False,
        request.budget,
        least,
        formatting.place(peak),
        min(least, recomputing),
        error.parts,
        bound_report(smallest, least, recompute),
        bound_report(smallest, min(least, recomputing), True),
    )


_OPTION = "--set"


def changed(system: System, settings: Sequence[str]) -> System:
    """Return a system with other values: ``clock_hz=400_000_000``, or ``sram.bandwidth=4`` for a key of a region.

    Raises:
        ValueError: a setting is not KEY=VALUE, there is no such region or key, or the value is not allowed.
    """
    if not settings:
        return system
    table: dict[str, object] = {"accelerator": system.accelerator.name, "clock_hz": system.clock_hz}
    regions = {region.name: region.as_table() for region in system.regions}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator:
            raise ValueError(f"{_OPTION} {setting!r}: expected KEY=VALUE or REGION.KEY=VALUE")
        name, dot, key_of_region = key.rpartition(".")
        if dot and name not in regions:
            raise ValueError(f"{_OPTION} {setting!r}: got region {name!r}, expected one of {', '.join(regions)}")
        target = regions[name] if dot else table
        target[key_of_region] = _value(text)
    return system_from({**table, "region": list(regions.values())}, _OPTION, system.name)


def _value(text: str) -> object:
    """A value of TOML, or a text without its quotation marks."""
    try:
        return parse_toml(f"value = {text}", "a value")["value"]
    except ValueError:
        return text
