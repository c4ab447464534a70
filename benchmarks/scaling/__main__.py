"""``python -m benchmarks.scaling``: ways to serve from two hosts, beside one host alone.

Two whole nnhals run on this machine, so that two have no more processors than one: throughput is measured with a device
whose runs last a given time and need no processor. All ways are measured in one run, in windows that take turns:

1. latency with one request at a time, of 1 KiB and of 16 MiB;
2. throughput, with more requests under way than two hosts' devices can execute;
3. what is lost when one host is killed under load.

The client is tritonclient as it is. HAProxy has the configuration of ``deploy/haproxy.cfg``. A way that cannot be
started is left out, and the reason is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.scaling.haproxy import HaproxyError, running_haproxy
from benchmarks.scaling.hosts import LARGE, SHORT, TINY, running_hosts
from benchmarks.scaling.outages import Outage, measure_outage
from benchmarks.scaling.ray_serve import RayServeError, running_ray
from benchmarks.scaling.ways import CLIENT_SIDE, HAPROXY, RAY, Way, ways_alone, ways_by_client, ways_by_haproxy
from benchmarks.scaling.windows import WayResult, measure_ways, outage_table, overhead_table, throughput_table
from benchmarks.tables import ShownTables
from benchmarks.testbeds import RunningTestbed

_WITH_TWO_HOSTS = (f"{HAPROXY}, http", f"{HAPROXY}, grpc", f"{CLIENT_SIDE}, grpc")
_OUTAGE_SECONDS, _KILLED_AFTER_SECONDS = 6.0, 1.5
_OUTAGE_CONCURRENCY = 4


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.scaling", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="of windows")
    add("--seconds", type=float, default=1.0, help="of a window")
    add("--milliseconds", type=float, default=20.0, help="that a run takes on the device that limits throughput")
    add("--concurrency", type=int, default=12, help="requests under way when throughput is measured")
    add("--out", type=Path, help="a directory for results.md")
    arguments = parser.parse_args()
    tables = ShownTables()
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        root = Path(name)
        latencies, rates = _side_by_side(root / "both", arguments)
        tables.show(overhead_table(latencies))
        tables.show(throughput_table(rates))
        tables.show(outage_table(_outages(root, arguments.milliseconds)))
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        tables.write(arguments.out / "results.md")
    return 0


def _side_by_side(root: Path, arguments: argparse.Namespace) -> tuple[list[WayResult], list[WayResult]]:
    """Measure latency and throughput of all ways."""
    latencies: list[WayResult] = []
    with ExitStack() as stack:
        hosts = stack.enter_context(running_hosts(root, 2, arguments.milliseconds))
        ways = [*ways_alone(hosts[0]), *ways_by_client(hosts)]
        try:
            ways += ways_by_haproxy(stack.enter_context(running_haproxy(root, hosts)))
        except HaproxyError as error:
            _say(f"{HAPROXY} is left out: {error}")
        try:
            ways += stack.enter_context(running_ray(root, root / "models", arguments.milliseconds))
        except RayServeError as error:
            _say(f"{RAY} is left out: {error}")
        for model in (TINY, LARGE):
            latencies += measure_ways(ways, model, 1, arguments.seconds, arguments.rounds, _say)
        rates = measure_ways(ways, SHORT, arguments.concurrency, arguments.seconds, arguments.rounds, _say)
    return latencies, rates


def _outages(root: Path, milliseconds: float) -> list[Outage]:
    """Kill a host under load, once for each way that has two; each time they are new ones."""
    found: list[Outage] = []
    for number, title in enumerate(_WITH_TWO_HOSTS):
        with ExitStack() as stack:
            folder = root / f"outage{number}"
            hosts = stack.enter_context(running_hosts(folder, 2, milliseconds))
            try:
                way = _way(title, hosts, folder, stack)
            except HaproxyError as error:
                _say(f"{title} is left out: {error}")
                continue
            _say(f"{title}: a host is killed")
            found.append(
                measure_outage(way, SHORT, _OUTAGE_CONCURRENCY, _OUTAGE_SECONDS, hosts[1].kill, _KILLED_AFTER_SECONDS)
            )
    return found


def _way(title: str, hosts: Sequence[RunningTestbed], folder: Path, stack: ExitStack) -> Way:
    """Return a way by its title. Raises HaproxyError."""
    if title.startswith(CLIENT_SIDE):
        return ways_by_client(hosts)[0]
    ways = ways_by_haproxy(stack.enter_context(running_haproxy(folder, hosts)))
    return next(way for way in ways if way.title == title)


def _say(line: str) -> None:
    print(f"{line} (load {os.getloadavg()[0]:.1f})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
