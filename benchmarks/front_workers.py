"""``python -m benchmarks.front_workers``: how the fronts scale with their processes.

Servers with different numbers of front workers stand side by side, and rounds of one load on each alternate. A request
is tiny, so that nearly all of its time is the fronts'. The clients run on the same machine and take their share of it:
what is shown is a lower bound of what clients elsewhere get. The kernel spreads connections over workers by a hash, so
that few clients may share a worker while another idles.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from rich.console import Console

from benchmarks.peers.contenders import Contender
from benchmarks.peers.ratios import result_table
from benchmarks.peers.rounds import Result, run_rounds
from benchmarks.serve import Target, Transport
from benchmarks.serve.server import SMALL, serving, small_model
from nnhal_pages.terminal import output_console, show_table

_INSTANCES = 4


def main() -> int:
    """Print the medians of the rounds."""
    parser = argparse.ArgumentParser("python -m benchmarks.front_workers", description=__doc__)
    parser.add_argument("--workers", type=_numbers, default=(1, 2), help="with commas")
    parser.add_argument("--concurrency", type=_numbers, default=(1, 4, 8), help="with commas")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one window")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    results: list[Result] = []
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for count in arguments.workers:
            server = stack.enter_context(serving({SMALL: small_model()}, _INSTANCES, count))
            processes = tuple(server.processes.values())
            for transport in (Transport.HTTP, Transport.GRPC):
                target = Target(transport, server.urls[transport], SMALL)
                contenders[f"{transport}, {count} front workers"] = Contender(target, processes)
        for concurrency in arguments.concurrency:
            results += run_rounds(
                SMALL, contenders, concurrency, arguments.seconds, arguments.rounds, lambda line: console.print(line)
            )
    show_table(result_table(results), output_console())
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
