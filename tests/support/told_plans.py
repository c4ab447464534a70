"""Explanations as the framework sends them."""

from __future__ import annotations

from dataclasses import asdict

from nnhal.v1 import framework_pb2 as wire
from nnhal_client.explanation import Explanation


def told_plan(explanation: Explanation) -> wire.ModelExplanation:
    """Return the message of which ``explanation_from_wire`` makes the explanation."""
    fields = asdict(explanation)
    del fields["measured"]
    for story in fields["operations"]:
        story["refusals"] = [{"device": name, "reason": reason} for name, reason in story["refusals"].items()]
        story["costs"] = [{"device": name, "modelled_ns": cost} for name, cost in story["costs"].items()]
    return wire.ModelExplanation(**fields)
