"""Cases with known answers, in a JSON file, and how many of them hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.aims import Aim, statement
from benchmarks.cascade.published.part_performance import PartPerformance, PublishedPart
from benchmarks.cascade.published.propagator import Propagator
from benchmarks.cascade.published.stripes import StripeConfig, count_stripes, recompute_bytes, rolling_bytes
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartKind
from nnhal_cascade.hardware.accelerators import accelerator
from nnhal_cascade.performance.workload import PartWorkload, workload_of
from tests.support.cascader_parts import one_part

Case = Mapping[str, Any]

DEVIATIONS = {"copy_cycles": "a deviation: published copies cost bytes times bandwidth, and ours bytes by bandwidth"}
"""Kinds of cases that the compiler does not aim at, with the reason."""


def known_good_aims(path: Path) -> list[Aim]:
    """Return an aim for each kind of case in a file: none of them fails.

    Raises OSError if the file cannot be read, and ValueError if it is no JSON object of lists.
    """
    found = json.loads(path.read_text())
    if not isinstance(found, dict):
        raise ValueError(f"{path}: got {type(found).__name__}, expected an object with a list for each kind of case")
    return [_aim(kind, cases) for kind, cases in found.items()]


def _aim(kind: str, cases: Sequence[Case]) -> Aim:
    what = f"known-good cases: {kind}"
    if kind in DEVIATIONS:
        return Aim(what, len(cases), len(cases), "deviations", DEVIATIONS[kind])
    holds = _CHECKS.get(kind)
    if holds is None:
        return statement(what, None, "a kind of case that is not known")
    failed = [number for number, case in enumerate(cases) if not holds(case)]
    remark = f"of {len(cases)}" + (f"; the first is number {failed[0]}" if failed else "")
    return statement(what, len(failed), remark)


def _propagates(case: Case) -> bool:
    propagator = Propagator(tuple(map(tuple, case["matrix"])), tuple(case["offset"]))
    return propagator.propagate(_config(case["out"])) == _config(case["ifm"])


def _counts(case: Case) -> bool:
    expected = {tuple(shape): count for shape, count in case["counts"]}
    return count_stripes(_config(case["config"]), case["sliding"]) == expected


def _buffers(case: Case) -> bool:
    config, tensor = _config(case["config"]), tuple(case["tensor"])
    return (rolling_bytes(config, tensor), recompute_bytes(config)) == (case["rolling"], case["recompute"])


def _config(fields: Case) -> StripeConfig:
    return StripeConfig(**{name: tuple(values) for name, values in fields.items()})


def _performs(case: Case) -> bool:
    """Whether the block, and cycles and bytes in both kinds of buffers are as published."""
    rows, columns = case["pad"]
    part = PublishedPart(accelerator(case["acc"].removeprefix("ethos-")), _workload(case), (rows, columns))
    stripe = Shape(*case["stripe"][1:])
    block = part.block(stripe)
    found = (len(part.valid_blocks), block.output, block.input, block.compute_cycles, block.output_cycles)
    expected = (
        case["valid_blocks"],
        Shape(*case["block_out"][1:]),
        Shape(*case["block_in"][1:]),
        case["block_compute_cycles"],
        case["block_output_cycles"],
    )
    return found == expected and all(
        _totals(part.performance(stripe, mode == "rolling")) == case[mode] for mode in ("rolling", "recompute")
    )


def _totals(found: PartPerformance) -> Case:
    return {"cycles": found.cycles, "read": list(found.read), "write": found.written}


def _workload(case: Case) -> PartWorkload:
    kernel = Kernel(*case["kernel"], *case["stride"])
    read, written = (tuple(case[name][1:]) for name in ("ifm", "ofm"))
    graph = one_part(_KINDS[case["op"]], (read,), written, kernel=kernel)
    return workload_of(graph, graph.parts[0])


_KINDS = {"conv": PartKind.CONVOLUTION, "dw": PartKind.DEPTHWISE, "pool": PartKind.POOLING}
_CHECKS: Mapping[str, Callable[[Case], bool]] = {
    "propagate": _propagates,
    "count_stripes": _counts,
    "buffer_size": _buffers,
    "perf": _performs,
}
