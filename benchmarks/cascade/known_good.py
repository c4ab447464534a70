"""Cases with known answers, in a JSON file, and how many of them hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cascade.aims import Aim, statement
from nnhal_devices.ethos_u.cascader.geometry.buffers import recompute_bytes, rolling_bytes
from nnhal_devices.ethos_u.cascader.geometry.propagator import Propagator
from nnhal_devices.ethos_u.cascader.geometry.stripe_config import StripeConfig, count_stripes

Case = Mapping[str, Any]


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


_CHECKS: Mapping[str, Callable[[Case], bool]] = {
    "propagate": _propagates,
    "count_stripes": _counts,
    "buffer_size": _buffers,
}
