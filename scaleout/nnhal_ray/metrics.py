"""The metrics of all hosts as one page for Prometheus, each sample with the label ``node``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?( [-+.0-9A-Za-z]+(?: -?\d+)?)")
_DESCRIBED = ("# HELP ", "# TYPE ")


def merged(pages: Iterable[tuple[str, str]]) -> str:
    """Join the pages of nodes, given as node and text. Each metric is described once, with the samples of all nodes."""
    descriptions: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for node, page in pages:
        family = ""
        for line in page.split("\n"):
            if line.startswith(_DESCRIBED):
                family = line.split(" ", 3)[2]
                descriptions.setdefault(family, {}).setdefault(line[: len(_DESCRIBED[0])], line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(_labelled(line, node))
    lines = []
    for family, found in samples.items():
        lines += [*descriptions.get(family, {}).values(), *found]
    return "".join(f"{line}\n" for line in lines)


def _labelled(sample: str, node: str) -> str:
    found = _SAMPLE.fullmatch(sample)
    if found is None:
        raise ValueError(f"{sample!r} is no sample of a metric")
    name, labels, value = found.groups()
    return f'{name}{{node="{node}"{"," if labels else ""}{labels or ""}}}{value}'
