"""``python -m benchmarks.dashboard``: what the dashboard costs beside a busy testbed.

A testbed of 10 devices, 100 models and 200 sessions serves requests over HTTP at a steady rate: 2,000 a second, or half
of what the machine gives. Meanwhile

1. each page is asked for several times; the server says how long it took to make it;
2. pages are held open by no browser, one and six, and the processor time of the dashboard is read;
3. the latency of requests is measured with the dashboard frozen (twice, which shows the noise), with nobody looking,
   and with six open pages. These windows take turns. With ``--browser`` the pages are open in Chromium on one core:
   one of each kind, and four at a time.

The exit status is 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.aims import Aim, aim_table, write_aims
from benchmarks.dashboard.browser import chromium_on_one_core, visit
from benchmarks.dashboard.latencies import (
    STREAMS,
    TABS,
    OpenPages,
    latency_aims,
    latency_table,
    measure_latencies,
    spent_table,
)
from benchmarks.dashboard.pages import measure_pages, page_aims, page_table
from benchmarks.dashboard.testbed import idle_sessions, model_name, shown_testbed
from benchmarks.dashboard.updates import measure_updates, open_pages, update_aims, update_table
from benchmarks.serve import Load, Target, Transport
from benchmarks.tables import ShownTables
from benchmarks.testbeds import RunningTestbed

_MOST_REQUESTS = 2000.0
_SHARE = 0.5
"""The share of what the machine gives: a server that is busy all the time has no latency to speak of."""
_SENDERS = 8
"""Senders of one connection each, most of whose time is spare: a late request then does not make the next one late."""
_CAPACITY_SECONDS = 3.0


def main() -> int:
    """Print the tables and the aims. Returns 1 if an aim is missed."""
    parser = argparse.ArgumentParser("python -m benchmarks.dashboard", description=__doc__)
    add = parser.add_argument
    add("--devices", type=int, default=10)
    add("--models", type=int, default=100)
    add("--sessions", type=int, default=200)
    add("--visits", type=int, default=7, help="of each page")
    add("--rounds", type=int, default=4, help="of windows")
    add("--seconds", type=float, default=2.5, help="of a window")
    add("--rate", type=float, default=0.0, help=f"requests a second (default: {_SHARE} of the capacity)")
    add(
        "--browser",
        action="store_true",
        help="hold pages open in Chromium, which is pinned to one core",
    )
    add("--out", type=Path, help="a directory for results.md and aims.json")
    arguments = parser.parse_args()
    tables = ShownTables()
    with (
        shown_testbed(arguments.devices, arguments.models) as testbed,
        idle_sessions(testbed, arguments.sessions),
        Load(_targets(testbed, arguments.models)) as load,
    ):
        rate = arguments.rate or _rate(testbed)
        print(f"{rate:.0f} requests a second; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        visit(testbed.addresses["dashboard"], "/")
        with load.flowing(rate):
            pages = measure_pages(testbed, arguments.visits)
            tables.show(page_table(pages))
            updates = measure_updates(testbed, arguments.rounds, arguments.seconds)
            tables.show(update_table(updates))
        with ExitStack() as stack:
            situations = STREAMS
            open_: OpenPages = partial(open_pages, testbed)
            if arguments.browser:
                situations = TABS
                open_ = stack.enter_context(chromium_on_one_core(testbed.addresses["dashboard"]))
            latencies, spent = measure_latencies(
                testbed, load, rate, arguments.rounds, arguments.seconds, situations, open_
            )
        tables.show(latency_table(latencies))
        tables.show(spent_table(spent))
    aims: Sequence[Aim] = [*page_aims(pages), *update_aims(updates), *latency_aims(latencies)]
    tables.show(aim_table(aims))
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        tables.write(arguments.out / "results.md")
        write_aims(aims, arguments.out / "aims.json")
    return int(not all(aim.is_met for aim in aims))


def _targets(testbed: RunningTestbed, models: int) -> list[Target]:
    """Each sender has a model of its own."""
    url = testbed.addresses["http"]
    return [Target(Transport.HTTP, url, model_name(number % models)) for number in range(_SENDERS)]


def _rate(testbed: RunningTestbed) -> float:
    """The requests of a second that are sent from now on."""
    with Load([Target(Transport.HTTP, testbed.addresses["http"], model_name(0))] * _SENDERS) as load:
        return min(_MOST_REQUESTS, _SHARE * load.measure(_CAPACITY_SECONDS).rate)


if __name__ == "__main__":
    sys.exit(main())
