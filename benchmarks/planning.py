"""``python -m benchmarks.planning``: how long planning takes, and how good the plans are.

The devices' figures are made up, of the same order for operations, launches and edges, so that the best plan changes
devices often. That is harder than planning most real models.
"""

from __future__ import annotations

import time
from random import Random

from nnhal.types import Model
from nnhal_service.partition import Options, partition
from tests.support.planning import chain_of, made_up, random_graph, repeated_block

DEVICES = 3
MODELS: dict[str, Model] = {
    "chain": chain_of(1000),
    "chain, long": chain_of(10_000),
    "blocks": repeated_block(100),
    "blocks, many": repeated_block(1000),
    "random": random_graph(Random(0), 1000),
    "random, large": random_graph(Random(0), 10_000),
}


def main() -> None:
    """Print one line for each model."""
    print(f"{'model':16}{'operations':>11}{'seconds':>9}{'states':>9}{'steps':>7}  plan, NNAPI's rule, lower bound")
    for name, model in MODELS.items():
        task, candidates = made_up(Random(1), model, DEVICES)
        started = time.perf_counter()
        report = partition(task, candidates, Options(cpu="d0")).report
        seconds = time.perf_counter() - started
        assert report is not None
        nnapi = "none" if report.nnapi_ns is None else f"{report.nnapi_ns / 1000:.1f}"
        print(
            f"{name:16}{len(task.names):>11}{seconds:>9.2f}{report.evaluated:>9}{len(report.cost.steps):>7}"
            f"  {report.cost.total_ns / 1000:.1f} / {nnapi} / {report.lower_bound_ns / 1000:.1f} us"
        )


if __name__ == "__main__":
    main()
