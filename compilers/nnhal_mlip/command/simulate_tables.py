"""A simulated run as text for a terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from nnhal.types.layout import describe
from nnhal_mlip.command.compile_tables import show_errors
from nnhal_mlip.command.plan_file import MlipPlan
from nnhal_mlip.command.simulation import SimulationResult

_SHOWN = 8


def show_simulation(plan: MlipPlan, result: SimulationResult, console: Console) -> None:
    """Print outputs and times, and errors by layer if there are any."""
    for symbol, run in result.runs.items():
        console.print(
            f"{symbol}: modelled {run.timeline.total:,} cycles, {run.hardware_ns / 1000:,.1f} µs, and "
            f"{run.firmware_ns / 1000:,.1f} µs of firmware by profile {plan.profile['name']}",
            markup=False,
        )
    for name, array in result.outputs.items():
        values = np.array2string(array.reshape(-1)[:_SHOWN], precision=4, separator=" ", max_line_width=console.width)
        more = f" … {array.size - _SHOWN} more" if array.size > _SHOWN else ""
        console.print(f"{name} {array.dtype} {describe(array.shape)}: {values}{more}", markup=False)
    if result.errors:
        show_errors(result.errors, 1, console)
