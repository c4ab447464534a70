"""The on-chip memory of a tile over time: which bytes hold what, from when to when."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.v1 import admin_pb2
from nnhal_mlip.compiler.memory_uses import OcmUse
from nnhal_mlip.program.program import OCM_BYTES
from nnhal_pages.charts.memory import memory_chart
from nnhal_pages.svg import Drawing


def tile_memory_drawing(uses: Sequence[OcmUse], tiles: Sequence[int], name: str) -> Drawing:
    """Draw addresses upwards and modelled cycles to the right. ``name`` is the picture's own on its page."""
    figure = admin_pb2.MemoryFigure(
        name=f"The memory of {tiles_word(tiles)}",
        limit_bytes=OCM_BYTES,
        unit="cycles (modelled)",
        spans=[
            admin_pb2.MemorySpan(
                name=use.what,
                address=use.start,
                bytes=use.stop - use.start,
                begin=use.begin,
                end=use.end,
                kind="pinned weights" if use.pinned else use.what.partition(" ")[0],
            )
            for use in uses
        ],
    )
    return memory_chart(figure, name)


def tiles_word(tiles: Sequence[int]) -> str:
    """Return ``tile 3``, or ``tiles 0, 1 and 2``."""
    if len(tiles) == 1:
        return f"tile {tiles[0]}"
    return f"tiles {', '.join(map(str, tiles[:-1]))} and {tiles[-1]}"
