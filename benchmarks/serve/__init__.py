"""``python -m benchmarks.serve``: latency and throughput of a served model, over each transport."""

from benchmarks.generators import BenchError
from benchmarks.serve.load import Load, MeasurementWindow, joined
from benchmarks.serve.measurement import Measurement, Settings, measure
from benchmarks.serve.target import FLOORS, Target, Transport

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
