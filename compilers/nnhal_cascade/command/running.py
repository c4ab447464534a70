"""A schedule on the emulated device: what it measures while it runs."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from nnhal.arrays import Array
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.command.network import Network
from nnhal_cascade.command.report import RunFigures
from nnhal_cascade.command.schedule_report import figures
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.emit import emit


def measure(network: Network, schedule: Schedule, checked: bool) -> RunFigures:
    """Run a schedule once on random inputs.

    ``checked`` has the device check of every byte that it reads who wrote it: OverwrittenError is raised if it was not
    the tensor that is read.
    """
    machine = Machine(emit(schedule), schedule.graph, network.model, schedule.system, checked=checked)
    with threadpool_limits(1, user_api="blas"):  # stripes are too small to be shared between threads
        _, measured = machine.run(_inputs(network))
    return figures(
        schedule.system, measured.peak, measured.cycles, measured.macs, dict(measured.read), dict(measured.written)
    )


def _inputs(network: Network) -> list[Array]:
    generator = np.random.default_rng(0)
    main = network.model.model.main
    operands = [main.operands[index] for index in main.input_indexes]
    limits = [np.iinfo(ELEMENT_TYPES[operand.type].name) for operand in operands]
    return [
        generator.integers(limit.min, limit.max, operand.dimensions, limit.dtype, endpoint=True)
        for operand, limit in zip(operands, limits, strict=True)
    ]
