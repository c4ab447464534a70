"""``nnhal bench``: what things cost, against a named floor, in one run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from typer.core import TyperGroup

from nnhal_pages.terminal import output_console, show_table
from nnhal_tools.bench.alignment import AlignmentReport, measure_alignment
from nnhal_tools.bench.chain import MOST_STEPS, ChainReport, measure_chain
from nnhal_tools.bench.fallback import KIB, SIZES, FallbackReport, measure_fallback
from nnhal_tools.bench.hop import HopReport, measure_hop
from nnhal_tools.bench.modes import measure_modes
from nnhal_tools.bench.network import measure_networks
from nnhal_tools.cli.bench_model import bench_model
from nnhal_tools.cli.completion import complete_driver

_MODEL = "MODEL"


class _ModelOrCommand(TyperGroup):
    """Takes what is no command of its own as the arguments of the command MODEL."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_own = not args or args[0] in ("--help", *self.commands)
        if args and args[0] in self.commands and Path(args[0]).is_file():
            print(f"nnhal bench {args[0]} is a command; the file of that name is ./{args[0]}", file=sys.stderr)
        return super().parse_args(ctx, args if is_own else [_MODEL, *args])


app = typer.Typer(
    cls=_ModelOrCommand,
    help="Measure, against a named floor, in one run: nnhal bench MODEL for a file, or one of the commands.",
    no_args_is_help=True,
    add_completion=False,
)
app.command(_MODEL)(bench_model)


@app.callback()
def _bench() -> None:
    """Measure, against a named floor, in one run: nnhal bench MODEL for a file, or one of the commands."""


@app.command("hop")
def hop(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; each measures everything once.", min=10)] = 2000,
    large_rounds: Annotated[int, typer.Option(help="Rounds with 64 MiB tensors.", min=1)] = 15,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What a hop from one process to another costs.

    A raw ping-pong of 64 bytes between two Python processes, a tiny model in process, the same model through a burst
    and through plain gRPC; then bursts with tensors of 4 KiB and 64 MiB against the same computation in process.
    """
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        task = progress.add_task("hop", total=rounds + large_rounds)
        report = measure_hop(rounds, large_rounds, lambda: progress.advance(task))
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        _show(report)


@app.command("chain")
def chain(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; each measures everything once.", min=10)] = 1000,
    measured: Annotated[
        bool, typer.Option("--measured", help="Runs through the framework that report times, as in the demo.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What a further step of a plan costs.

    One model of eight layers, cut into 1 to 8 steps over two processes of cpu_acc in turn; a client runs it directly on
    them. The floor of a further step is a socket ping-pong and the step's own run.
    """
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        task = progress.add_task("chain", total=rounds)
        report = measure_chain(range(1, MOST_STEPS + 1), rounds, measured, lambda: progress.advance(task))
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        _show_chain(report, measured)


@app.command("modes")
def modes(
    device: Annotated[str, typer.Option(help="The driver.", autocompletion=complete_driver)] = "cpu_acc",
    rounds: Annotated[int, typer.Option(help="Interleaved rounds of the tiny model.", min=10)] = 1000,
    large_rounds: Annotated[int, typer.Option(help="Interleaved rounds of the network.", min=3)] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What each way of executing costs: synchronous, reusable, in bursts, fenced.

    A tiny model and one of MobileNet V2's size, timing requested; compute is the device's own time_on_device.
    """
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        task = progress.add_task("modes", total=rounds + large_rounds)
        reports = measure_modes(device, rounds, large_rounds, lambda: progress.advance(task))
    if as_json:
        print(json.dumps([asdict(report) for report in reports]))
        return
    for model in dict.fromkeys(report.model for report in reports):
        own = [report for report in reports if report.model == model]
        table = Table(
            "mode", "p50", "p99", "compute", "not compute", title=f"{model}, {own[0].rounds} interleaved rounds"
        )
        for report in own:
            times = (f"{value / 1e3:.0f} µs" for value in (report.p50_ns, report.p99_ns, report.compute_ns))
            table.add_row(report.mode, *times, f"{report.overhead:.1%}")
        show_table(table, output_console())


@app.command("network")
def network(
    device: Annotated[
        str, typer.Option(help="The driver that runs the whole network.", autocompletion=complete_driver)
    ] = "cpu_acc",
    threads: Annotated[int, typer.Option(help="Threads of one execution, on both sides.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Paired runs of each network.", min=3)] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What the HAL costs on a MobileNet V2-like network, float32 and int8.

    Each pair is one run through client, framework and device, and one of ONNX Runtime alone on the same ONNX graph.
    """
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        task = progress.add_task("networks", total=2 * rounds)
        reports = measure_networks(device, threads, rounds, lambda: progress.advance(task))
    if as_json:
        print(json.dumps([asdict(report) for report in reports]))
        return
    table = Table(
        "network",
        "ONNX Runtime alone",
        f"{device} through the HAL",
        "ratio",
        "client through the framework",
        "ratio",
        "largest difference",
        title=f"{rounds} pairs, medians",
    )
    for report in reports:
        table.add_row(
            report.name,
            f"{report.alone_ns / 1e6:.2f} ms",
            f"{report.hal_ns / 1e6:.2f} ms",
            f"{report.hal_ratio:.3f}",
            f"{report.client_ns / 1e6:.2f} ms",
            f"{report.client_ratio:.3f}",
            f"{report.largest_difference:.1e}",
        )
    show_table(table, output_console())


@app.command("fallback")
def fallback(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; each measures everything once.", min=3)] = 20,
    sizes: Annotated[
        str, typer.Option(help="Sizes of the value in KiB, separated by commas: powers of two up to 65536.")
    ] = ",".join(str(size // KIB) for size in SIZES),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What it costs to pass a value between two devices: imported by both, against copied for one of them.

    Measures every pair of GPU, NPU and CPU at each size, with one cheap operation on either side. Also prints the bytes
    that the common alignment of values takes in a small network that is cut over all three.
    """
    console = Console(stderr=True)
    in_bytes = _sizes(sizes)
    with Progress(console=console) as progress:
        task = progress.add_task("fallback", total=rounds)
        report = measure_fallback(rounds, in_bytes, lambda: progress.advance(task))
    alignment = measure_alignment()
    if as_json:
        print(json.dumps({**report.as_dict(), "alignment": asdict(alignment)}))
    else:
        _show_fallback(report, alignment)


def _sizes(text: str) -> list[int]:
    """Sizes in bytes. Raises ValueError unless they are powers of two that an image of the NPU can have."""
    sizes = [int(word) * KIB if word.strip().isdigit() else 0 for word in text.split(",")]
    if not all(0 < size <= SIZES[-1] and size & (size - 1) == 0 for size in sizes):
        raise ValueError(f"--sizes {text!r}: expected powers of two from 1 to {SIZES[-1] // KIB}, with commas between")
    return sizes


def _show_fallback(report: FallbackReport, alignment: AlignmentReport) -> None:
    console = output_console()
    table = Table(
        "edge",
        "value",
        "edge, imported",
        "edge, copied",
        "of that staging",
        "bytes staged",
        "both runs, imported",
        "longer with the copy",
        title=f"A value from device to device, medians of {report.rounds} interleaved rounds",
    )
    for edge in report.edges:
        times = (edge.imported.edge_ns, edge.copied.edge_ns, edge.copied.staging_ns)
        table.add_row(
            f"{edge.source} to {edge.destination}",
            f"{edge.bytes // KIB:,} KiB",
            *(f"{value / 1e3:,.0f} µs" for value in times),
            f"{edge.imported.staged_bytes:,} / {edge.copied.staged_bytes:,}",
            *(f"{value / 1e3:,.0f} µs" for value in (edge.imported.wall_ns, edge.copy_over_import_ns)),
        )
    show_table(table, console)
    least, largest = (bound(edge.bytes for edge in report.edges) // KIB for bound in (min, max))
    growth = Table(
        "edge",
        "imported",
        "copied",
        "fixed: both runs at the least size",
        title=f"What an edge's cost grows by, from {least:,} KiB to {largest:,} KiB",
    )
    for pair in report.pairs:
        factors = (f"x {factor:.1f}" for factor in (pair.import_growth, pair.copy_growth))
        growth.add_row(f"{pair.source} to {pair.destination}", *factors, f"{pair.fixed_ns / 1e3:.0f} µs")
    show_table(growth, console)
    console.print(
        f"alignment: {alignment.values} values between {' - '.join(alignment.steps)} take {alignment.aligned_bytes:,} "
        f"bytes, {alignment.unaligned_bytes:,} without alignment",
    )


def _show_chain(report: ChainReport, measured: bool) -> None:
    console = output_console()
    how = "measured, through the framework" if measured else "direct"
    table = Table(
        "steps",
        "run",
        "own runs of its steps",
        "control",
        "each further step",
        "of its floor",
        title=f"A model cut into steps, {how}, medians of {report.rounds} interleaved rounds",
    )
    for cut in report.cuts:
        times = (cut.run_ns, cut.steps * cut.own_ns, cut.run_ns - cut.steps * cut.own_ns)
        further = (f"{cut.added_ns / 1e3:.0f} µs", f"{cut.floor_ratio:.2f}") if cut.added_ns else ("", "")
        table.add_row(str(cut.steps), *(f"{value / 1e3:.0f} µs" for value in times), *further)
    show_table(table, console)
    console.print(
        f"floor of a further step: a ping-pong of {report.ping_pong_ns / 1e3:.1f} µs, and the step's own run  "
        "(aim: at most 1.5)"
    )


def _show(report: HopReport) -> None:
    console = output_console()
    table = Table("what", "p50", "p90", "p99", title=f"A hop, {report.rounds} interleaved rounds")
    for name, sample in report.samples.items():
        table.add_row(name, *(f"{sample.percentile(p) / 1e3:.1f} µs" for p in (50, 90, 99)))
    show_table(table, console)
    for name, ratio in (("direct run", report.direct_ratio), ("burst", report.ratio)):
        console.print(f"{name} / (ping-pong + in process), p50: {ratio:.2f}  (aim: at most 1.5)")
    sizes = Table(
        "tensors", "computation", "a burst over it", title="What a burst takes over the computation itself, medians"
    )
    for name, overhead in report.overheads.items():
        sizes.add_row(name, f"{overhead.compute_ns / 1e3:.0f} µs", f"{overhead.over_compute_ns / 1e3:.0f} µs")
    show_table(sizes, console)
