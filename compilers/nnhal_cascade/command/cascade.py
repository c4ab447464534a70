"""``nnhal cascade``: compile a network for an NPU with little memory, and tell of the schedule."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnhal_pages.report import tell

if TYPE_CHECKING:
    from nnhal_cascade.command.compiling import CascadeRequest
    from nnhal_cascade.command.network import Network, UnsupportedNetworkError
    from nnhal_cascade.command.partial import PartialStep
    from nnhal_cascade.schedule.schedule import Schedule


@contextmanager
def _uncollected() -> Iterator[None]:
    """Plans are many small objects without reference cycles: to look for those would take a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_uncollected()
def cascade(
    model: Annotated[Path, typer.Argument(help="An 8-bit TFLite or ONNX model.")],
    device: Annotated[
        str, typer.Option(help="The accelerator: u55-32, -64, -128, -256, u65-256, -512, or a system by name.")
    ] = "",
    sram: Annotated[
        str | None,
        typer.Option(help="The budget of working memory, such as 240KiB; all of it by default.", metavar="SIZE"),
    ] = None,
    memory: Annotated[Path | None, typer.Option(help="A file of memories (TOML) instead of the device's own.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a value of the system: sram.bandwidth=4, clock_hz=400_000_000.", metavar="KEY=VALUE"
        ),
    ] = None,
    frontier: Annotated[
        bool, typer.Option("--frontier", help="Show all the best compromises between memory and cycles.")
    ] = False,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Allow values to be computed twice, which takes less memory still.")
    ] = False,
    max_parts: Annotated[
        int | None,
        typer.Option("--max-parts", "--max-plan-size", help="The most parts of one cascade; 1 for no cascades.", min=1),
    ] = None,
    block_config: Annotated[
        str | None,
        typer.Option(help="The only block of the NPU, such as 16x8x16; the best by default.", metavar="HxWxC"),
    ] = None,
    stripe_factors: Annotated[
        int | None,
        typer.Option(help="How many extents of stripes are tried along an axis; 1 for no stripes.", min=1),
    ] = None,
    cascade_region: Annotated[
        str | None,
        typer.Option(help="The memory of the cascades' buffers; by default the first for activations.", metavar="NAME"),
    ] = None,
    always_copy_size: Annotated[
        str | None,
        typer.Option(help="Constants of a part up to SIZE are always copied to that memory.", metavar="SIZE"),
    ] = None,
    max_proposals: Annotated[int | None, typer.Option(help="How many proposals are looked at.", min=1)] = None,
    inputs: Annotated[
        str,
        typer.Option(
            "--input", help="Inputs lie in the working memory, or are handed over.", metavar="resident|streamed"
        ),
    ] = "resident",
    iterative_pooling: Annotated[
        bool,
        typer.Option(
            "--iterative-pooling", help="Poolings of whole channels add up rows as they arrive, in sums of 32 bits."
        ),
    ] = False,
    like_vela: Annotated[
        bool, typer.Option("--like-vela", help="Take only what the report of Vela 5.2 has for Ethos-U55 and U65.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Run the schedule on the emulated device, and compare with the plan.")
    ] = False,
    checked: Annotated[
        bool, typer.Option("--checked", help="Run it, and check of every byte that is read who wrote it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures to FILE.", metavar="FILE")] = None,
    disassemble: Annotated[
        Path | None, typer.Option(help="Write the command stream as text to FILE.", metavar="FILE")
    ] = None,
) -> None:
    """Compile an 8-bit network for an Ethos-U with a budget of bytes: its cascades, its buffers, what they cost.

    If the budget is too small, it names the least size, and the exit status is 1. It is 1 as well if the NPU does not
    run some operations: then the largest subgraph that it runs is compiled, and the rest is named.

    nnhal cascade examples/mobilenet/body.tflite --sram 240KiB
    """
    from nnhal_cascade.command.compiling import (
        CascadeRequest,
        MisfitError,
        chosen_budget,
        chosen_search,
        chosen_system,
        compile_network,
    )
    from nnhal_cascade.command.partial import shared_memory, shortages, steps_of
    from nnhal_cascade.command.rendering import page, report_parts
    from nnhal_cascade.command.schedule_report import schedule_report
    from nnhal_cascade.schedule.lives import memory_uses
    from nnhal_cascade.schedule.replay import replay

    system = chosen_system(device, memory, settings or [], block_config, cascade_region)
    search = chosen_search(system, max_parts, recompute, stripe_factors, always_copy_size, max_proposals)
    given = CascadeRequest(system, chosen_budget(sram, system), search)
    network, refused = _read(model, like_vela, inputs, iterative_pooling)
    steps = steps_of(refused) if refused is not None else ()
    own = next((step for step in steps if step.network is network), None)
    request = given if own is None else own.within(given)
    try:
        compiled = compile_network(network, request, frontier or html is not None)
    except MisfitError as error:
        if as_json:
            tell(asdict(error.report), (), as_json)
        raise error if own is None else MisfitError(error.report, own.told(given)) from error
    measured = None
    if run or checked:
        from nnhal_cascade.command.running import measure

        measured = measure(network, compiled.schedule, checked)
    replays = replay(compiled.schedule)
    report = schedule_report(
        network.name, request.budget, compiled.schedule, replays, compiled.frontier, measured, recompute
    )
    others: list[str] = []
    if steps:
        schedules = dict(_others(steps, network, given, others))
        shared = shared_memory(steps, {network.name: compiled.schedule, **schedules}, given)
        others += shortages(shared, steps)
        report = replace(report, together=shared)
    if disassemble is not None:
        from nnhal_cascade.stream.disassembler import disassemble as listing
        from nnhal_cascade.stream.emit import emit

        disassemble.write_text(listing(emit(compiled.schedule)))
    if html is not None:
        html.write_text(page(report, memory_uses(compiled.schedule, replays)))
    tell(asdict(report), report_parts(report), as_json)
    if refused is not None:
        for line in (str(refused), *others):
            typer.echo(line, err=True)
    if refused is not None or measured not in (None, report.planned):
        raise typer.Exit(1)


def _read(
    model: Path, only_like_vela: bool, inputs: str, iterative_pooling: bool
) -> tuple[Network, UnsupportedNetworkError | None]:
    """Return a network, or its largest subgraph with what says why it is not all.

    Raises what ``read_network`` does, and ValueError if ``inputs`` is no place or if a part of a network is to get its
    inputs streamed: they would have to lie somewhere.
    """
    from nnhal_cascade.command.network import UnsupportedNetworkError, read_network
    from nnhal_cascade.graph.feeds import InputPlace, input_place, with_inputs
    from nnhal_cascade.graph.running_sums import with_running_sums

    try:
        place = input_place(inputs)
    except ValueError as error:
        raise ValueError(f"--input: {error}") from error
    try:
        network = read_network(model, only_like_vela)
        graph = with_running_sums(network.graph, network.model) if iterative_pooling else network.graph
        if iterative_pooling and graph == network.graph:
            raise ValueError(
                f"--iterative-pooling: got {network.name}, expected a pooling or a mean of whole channels, of 8 bits "
                "and of one scale"
            )
        return replace(network, graph=with_inputs(graph, place)), None
    except UnsupportedNetworkError as error:
        if not error.subgraphs:
            raise
        if place is not InputPlace.RESIDENT:
            raise ValueError(f"--input {place}: expected a network that the NPU runs whole; {error}") from error
        if iterative_pooling:
            raise ValueError(f"--iterative-pooling: expected a network that the NPU runs whole; {error}") from error
        return error.subgraphs[0], error


def _others(
    steps: Sequence[PartialStep], largest: Network, request: CascadeRequest, told: list[str]
) -> Iterator[tuple[str, Schedule]]:
    """Compile the other subgraphs: their schedules by name. What each takes, or that it does not fit, is ``told``."""
    from nnhal_cascade.command import formatting
    from nnhal_cascade.command.compiling import MisfitError, compile_network

    for step in steps:
        if step.network is None or step.network is largest:
            continue
        try:
            schedule = compile_network(step.network, step.within(request), False).schedule
        except MisfitError as error:
            told.append(str(MisfitError(error.report, step.told(request))))
        else:
            told.append(f"{step.name}: {formatting.size(schedule.peak)}, {formatting.short(schedule.cycles)} cycles")
            yield step.name, schedule
