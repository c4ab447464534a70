"""Random ways to cascade a graph."""

from __future__ import annotations

from hypothesis import strategies as st

from nnhal_cascade.geometry.box import Axis, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.plans.plan import Plan, WeightsIn

_WHOLE = 1 << 20
"""More than any tensor has along an axis."""


@st.composite
def random_plans(draw: st.DrawFn, graph: CascaderGraph) -> tuple[list[Plan], list[bool]]:
    """Draw plans over all parts of a graph, and for each whether it runs backwards."""
    plans: list[Plan] = []
    start = 0
    while start < len(graph.parts):
        stop = draw(st.integers(start + 1, len(graph.parts)))
        plans.append(_plan(draw, graph, range(start, stop)))
        start = stop
    return plans, [draw(st.booleans()) for _ in plans]


def _plan(draw: st.DrawFn, graph: CascaderGraph, parts: range) -> Plan:
    alone = len(parts) == 1
    along = draw(st.sampled_from(list(Axis) if alone else [Axis.ROWS, Axis.COLUMNS]))
    places = [WeightsIn.STREAMED, WeightsIn.RESIDENT]
    if alone and along == Axis.CHANNELS:
        places.append(WeightsIn.DOUBLE_BUFFERED)
    weights = (draw(st.sampled_from(places)) if graph.parts[part].constants else WeightsIn.NONE for part in parts)
    stripes = (draw(st.sampled_from([1, 1, 2, 3, _WHOLE])) for _ in parts)
    last = graph.tensors[graph.parts[parts[-1]].output].shape
    return Plan(tuple(parts), tuple(stripes), tuple(weights), (whole(last),), along)
