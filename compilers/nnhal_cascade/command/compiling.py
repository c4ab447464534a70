"""From what a user asks for to schedules, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnhal.given_files import parse_toml
from nnhal_cascade.command import formatting
from nnhal_cascade.command.network import Network
from nnhal_cascade.command.report import MisfitReport
from nnhal_cascade.command.schedule_report import bound_report, schedule_report, system_report
from nnhal_cascade.compiler import (
    CompilerOptions,
    DoesNotFitError,
    compile_graph,
    frontier,
    least_memory,
)
from nnhal_cascade.hardware.accelerators import accelerator
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.hardware.memory_file import parse_size, read_system, system_for, system_from
from nnhal_cascade.schedule.replay import replay
from nnhal_cascade.schedule.schedule import Schedule

DEFAULT_DEVICE = "u55-128"


@dataclass(frozen=True, slots=True)
class CascadeRequest:
    """What is asked for."""

    system: System
    budget: int
    """Bytes of the working memory, at most the size of its region."""
    recompute: bool
    """Whether values may be computed twice."""
    max_parts: int | None
    """The most parts of a cascade, None for the compiler's own limit."""

    @property
    def options(self) -> CompilerOptions:
        """What the compiler is told."""
        return CompilerOptions(self.budget, self.max_parts, self.recompute)


@dataclass(frozen=True, slots=True)
class Compilation:
    """What the compiler has found."""

    schedule: Schedule
    """The fastest that fits the budget."""
    frontier: tuple[Schedule, ...]
    """The best schedules whatever the budget, from most memory to least; none if they were not asked for."""


class MisfitError(ValueError):
    """A network does not fit. The message says what would."""

    def __init__(self, report: MisfitReport, taken: str = "") -> None:
        """``taken`` says how the budget came to be what is left of another."""
        less = (
            f"; --recompute reaches {formatting.size(report.least_with_recompute)}"
            if report.least_with_recompute < report.least
            else ""
        )
        bound = "" if report.bound is None else f"; no schedule takes less than {formatting.size(report.bound.bytes)}"
        super().__init__(
            f"{report.model} does not fit {formatting.size(report.budget)} of {report.system.working}: "
            f"the least found is {formatting.size(report.least)}, in {report.where}, with cascades of up to "
            f"{report.parts} parts{bound}{less}" + (f". The budget is {taken}" if taken else "")
        )
        self.report = report


def chosen_system(device: str, memory: Path | None, settings: Sequence[str] = ()) -> System:
    """Return the system of a device by name, or that of a file of memories, around the device if both are given.

    ``settings`` change single values of it.

    Raises:
        OSError: the file cannot be read.
        ValueError: the device is unknown, the file does not describe a system, or a setting is wrong.
    """
    if memory is None:
        return changed(system_for(device or DEFAULT_DEVICE), settings)
    system = read_system(memory)
    return changed(replace(system, accelerator=accelerator(device)) if device else system, settings)


def chosen_budget(size: str | None, system: System) -> int:
    """Return the bytes of a size such as ``240KiB``, at most the working memory's. Raises ValueError if it is none."""
    return min(parse_size(size), system.working.size) if size is not None else system.working.size


def compile_network(network: Network, request: CascadeRequest, with_frontier: bool) -> Compilation:
    """Compile a network. Raises MisfitError if nothing fits the budget."""
    every = frontier(network.graph, request.system, replace(request.options, budget=None)) if with_frontier else ()
    chosen = next((each for each in every if each.peak <= request.budget), None)
    return Compilation(chosen or _fastest(network, request), every)


def _fastest(network: Network, request: CascadeRequest) -> Schedule:
    try:
        return compile_graph(network.graph, request.system, request.options)
    except DoesNotFitError as error:
        raise MisfitError(_misfit(network, request, error)) from error


def _misfit(network: Network, request: CascadeRequest, error: DoesNotFitError) -> MisfitReport:
    """Tell what is the least, and where; also with recomputing, if that was not asked for."""
    least, smallest = error.least, error.smallest
    peak = schedule_report(network.name, least, smallest, replay(smallest)).peak_plan
    bound = bound_report(smallest, request.recompute)
    system = system_report(request.system)
    recomputing = least if request.recompute else _least(network, request)
    where = formatting.place(peak)
    return MisfitReport(
        network.name, system, False, request.budget, least, where, min(least, recomputing), error.parts, bound
    )


def _least(network: Network, request: CascadeRequest) -> int:
    return least_memory(network.graph, request.system, replace(request.options, budget=None, recompute=True))


_OPTION = "--set"


def changed(system: System, settings: Sequence[str]) -> System:
    """Return a system with other values: ``clock_hz=400_000_000``, or ``sram.bandwidth=4`` for a key of a region.

    Raises:
        ValueError: a setting is not KEY=VALUE, there is no such region or key, or the value is not allowed.
    """
    if not settings:
        return system
    table: dict[str, object] = {"accelerator": system.accelerator.name, "clock_hz": system.clock_hz}
    regions = {region.name: _keys(system, region.name) for region in system.regions}
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


def _keys(system: System, name: str) -> dict[str, object]:
    region = system.region(name)
    return {
        "name": region.name,
        "size": region.size,
        "bandwidth": region.bandwidth,
        "read_latency": region.read_latency,
        "write_latency": region.write_latency,
        "burst": region.burst,
        "holds": sorted(region.holds),
    }


def _value(text: str) -> object:
    """A value of TOML, or a text without its quotation marks."""
    try:
        return parse_toml(f"value = {text}", "a value")["value"]
    except ValueError:
        return text
