"""``nnhal drill``: whether a request is lost when devices die, hang, are cut off, and when everything is updated."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from nnhal.errors import NnhalError
from nnhal_hosting.logs import configure_logs
from nnhal_pages.terminal import output_console, show_table
from nnhal_tools.demo.digits import Digits, classify_alone, held_out
from nnhal_tools.drill import ACTS, ActReport, DrillSite, DrillTraffic, carry_out

_IMAGES = 32


def drill(
    acts: Annotated[
        list[str] | None, typer.Argument(help=f"What to do, in this order: {', '.join(ACTS)}; everything by default.")
    ] = None,
    times: Annotated[int, typer.Option(help="How often to do it all, one round after the other.", min=1)] = 1,
    clients: Annotated[int, typer.Option(help="Clients of each model.", min=1, max=64)] = 1,
    front_workers: Annotated[
        int, typer.Option(help="Processes that serve HTTP; 0 for the framework's own.", min=0)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill, hang, cut off, update and abuse a testbed of its own under requests, and count lost requests.

    Exit status 1 if one is lost or wrong, or something does not come back.
    """
    unknown = set(acts or ()) - ACTS.keys()
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}, expected some of {', '.join(ACTS)}", param_hint="ACTS")
    configure_logs("supervisor", "warning", as_json=False)
    console = Console(stderr=True)
    everything = held_out()
    digits = Digits(everything.images[:_IMAGES], everything.labels[:_IMAGES])
    expected = classify_alone("float32", digits)
    reports: list[ActReport] = []
    with (
        console.status("starting a testbed") as status,
        DrillSite.open(front_workers) as site,
        DrillTraffic(site.address, site.models, digits.images, expected, clients) as traffic,
    ):
        traffic.wait(1)
        traffic.report("start", 0.0)
        for act in [*(acts or ACTS)] * times:
            status.update(f"{act}: {(ACTS[act].__doc__ or '').partition('.')[0].lower()}")
            began, trouble = time.monotonic(), ""
            try:
                carry_out(act, site, traffic)
            except NnhalError as error:
                trouble = str(error)
            reports.append(traffic.report(act, time.monotonic() - began, trouble))
    if as_json:
        print(json.dumps([asdict(report) for report in reports]))
    else:
        _show(reports)
    raise typer.Exit(not all(report.passed for report in reports))


def _show(reports: list[ActReport]) -> None:
    columns = ("s", "answered", "asked again", "median, ms", "slowest, ms", "wrong", "lost")
    table = Table("act", *(Column(name, justify="right") for name in columns), box=SIMPLE)
    for each in reports:
        spans = (round(each.median_ms), round(each.slowest_ms))
        counts = (each.answered, each.asked_again, *spans, each.wrong, each.lost)
        table.add_row(each.act, f"{each.seconds:.1f}", *map(str, counts))
    console = output_console()
    show_table(table, console)
    for each in reports:
        if each.trouble:
            console.print(f"{each.act}: {each.trouble}", markup=False, soft_wrap=True)
    lost, answered = sum(each.lost for each in reports), sum(each.answered for each in reports)
    console.print(f"{answered + lost} requests, {lost} lost")
