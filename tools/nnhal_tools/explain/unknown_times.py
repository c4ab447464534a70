"""Explanations of models with open dimensions, without times that would hold for dimensions of 1 alone."""

from __future__ import annotations

from dataclasses import replace

from nnhal_client.explanation import Explanation

UNKNOWN = -1.0


def with_unknown_times(explanation: Explanation) -> Explanation:
    """Return it with UNKNOWN in place of modelled times that depend on unknown dimensions."""
    if not any(story.has_open_dimensions for story in explanation.operations):
        return explanation
    open_steps = {story.step for story in explanation.operations if story.has_open_dimensions}
    return replace(
        explanation,
        modelled_ns=UNKNOWN,
        operations=tuple(
            replace(story, modelled_ns=UNKNOWN, costs=dict.fromkeys(story.costs, UNKNOWN))
            if story.has_open_dimensions
            else story
            for story in explanation.operations
        ),
        steps=tuple(
            replace(step, modelled_ns=UNKNOWN) if number in open_steps else step
            for number, step in enumerate(explanation.steps)
        ),
        edges=tuple(edge if edge.bytes else replace(edge, modelled_ns=UNKNOWN) for edge in explanation.edges),
        counterfactuals=tuple(
            replace(other, modelled_ns=UNKNOWN) if other.modelled_ns else other for other in explanation.counterfactuals
        ),
    )
