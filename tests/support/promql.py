"""Metrics and labels that queries of Prometheus name, in files of rules and dashboards of Grafana."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^{}]*)\}")
_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^()]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_TEXT = re.compile(r'"[^"]*"')
_NAME = re.compile(r"(?<![\w:$])([a-zA-Z_:][\w:]*)\b(?!\s*\()")
_TOLD = re.compile(r"\$labels\.(\w+)")
_WORDS = {"by", "without", "on", "ignoring", "and", "or", "unless", "bool", "offset"}


class Rule(NamedTuple):
    """A rule of Prometheus."""

    name: str
    expression: str
    is_alert: bool
    summary: str = ""
    description: str = ""
    """What to do about it."""


def rules_of(text: str) -> list[Rule]:
    return [
        Rule(rule["alert"], rule["expr"], True, rule["annotations"]["summary"], rule["annotations"]["description"])
        if "alert" in rule
        else Rule(rule["record"], rule["expr"], False)
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
    ]


def grafana_queries(text: str) -> list[str]:
    """Return the queries of a dashboard: of its panels, and of its variables."""
    return list(_queries(json.loads(text)))


def labels_in(query: str) -> dict[str, set[str]]:
    """Return the labels that a query expects of each metric that it names."""
    groups: set[str] = set()
    if query.startswith("label_values("):
        query, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(",")
        groups.add(label.strip())
    for grouping in _GROUPING.findall(query):
        groups.update(label.strip() for label in grouping.split(","))
    bare = _SELECTOR.sub(r"\1", _RANGE.sub("", query))
    bare = _TEXT.sub("", _GROUPING.sub("", bare))
    labels = {metric: set(groups) for metric in _NAME.findall(bare) if metric not in _WORDS}
    for metric, matchers in _SELECTOR.findall(query):
        labels[metric].update(_MATCHER.findall(matchers))
    return labels


def labels_told(summary: str) -> set[str]:
    """Return the labels that the summary of an alert shows."""
    return set(_TOLD.findall(summary))


def _queries(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("expr", "definition"):
                yield each
            else:
                yield from _queries(each)
    elif isinstance(value, list):
        for each in value:
            yield from _queries(each)
