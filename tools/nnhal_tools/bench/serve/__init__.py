"""``nnhal bench serve``: latency and throughput of a served model, over each transport."""

from nnhal_tools.bench.serve.load import Load, MeasurementWindow, joined
from nnhal_tools.bench.serve.measurement import Measurement, Settings, measure
from nnhal_tools.bench.serve.target import FLOORS, BenchError, Target, Transport

__all__ = [
    "FLOORS",
    "BenchError",
    "Load",
    "Measurement",
    "MeasurementWindow",
    "Settings",
    "Target",
    "Transport",
    "joined",
    "measure",
]
