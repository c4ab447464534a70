"""Sessions of ONNX Runtime for lowered graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as binding

from nnhal.arrays import Array
from nnhal_devices.cpu_acc.byte_sums import sums_saturate
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.optimised import INLINE_BYTES, NO_GRAPH, OptimisedFiles, SplitGraph
from nnhal_devices.cpu_acc.proto import model_of
from nnhal_devices.cpu_acc.runtime_words import runtime_failure
from nnhal_devices.cpu_acc.transposed_images import mixes_images
from nnhal_devices.driver import Control

Providers = Sequence[str] | Callable[[onnxruntime.SessionOptions], object]
"""Execution providers by name, the preferred first; or what adds them to the options of a session."""
CPU = ("CPUExecutionProvider",)
INEXACT = ["DoubleQDQPairsRemover", "WeightBiasQuantization"]
"""Optimisations that change results: one drops a quantisation, whose rounding is part of the model, the other quantises
weights that are floats. A test finds them.
"""
INTEGERS = "QDQSelectorActionTransformer"
"""The optimisation that computes with integers between quantised tensors: many times faster, and up to one step off."""
TRANSPOSING = "TransposeOptimizer_CPUExecutionProvider"
"""The optimisation that moves a Transpose past other nodes."""
FOLDING = "ConstantFolding"
"""The optimisation that computes what depends on constants only."""
LARGEST_FOLDED_BYTES = 64 << 20
"""The largest result that it computes."""
_ERRORS_ONLY, _FATAL_ONLY = 3, 4
_NO_GRAPH_CAPTURE = ("gpu_graph_id", "-1")
"""Without this entry, ONNX Runtime takes 30 us a run to find out that its options have none."""

RUNTIME_ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    ValueError,
    binding.Fail,
    binding.InvalidArgument,
    binding.InvalidGraph,
    binding.InvalidProtobuf,
    binding.NotImplemented,
    binding.RuntimeException,
)
"""The errors that ONNX Runtime raises."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnnxSession:
    """A session, and the constants that it reads in place, which must live as long."""

    runtime: onnxruntime.InferenceSession
    constants: tuple[Array, ...] = ()
    optimised: SplitGraph = NO_GRAPH
    """The graph as ONNX Runtime has optimised it, if it was asked for."""


def create_session(
    graph: LoweredGraph,
    threads: int,
    providers: Providers = CPU,
    folds: bool = True,
    keeps: bool = False,
    profile: str = "",
) -> OnnxSession:
    """Compile a finished graph for execution providers of ONNX Runtime.

    ``folds`` tells whether ONNX Runtime may compute what depends on constants only, ``keeps`` whether the session is to
    have the optimised graph. With ``profile``, runs are profiled, for a file whose name begins so. Raises
    GENERAL_FAILURE if ONNX Runtime refuses the graph.
    """
    large = {name: np.asarray(a, order="C") for name, a in graph.constants.items() if a.nbytes > INLINE_BYTES}
    options = session_options(threads)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    values = _given(options, large)
    if callable(providers):
        providers(options)
    model = model_of(graph, large)
    disabled = [*INEXACT, *([] if folds else [FOLDING]), *([TRANSPOSING] if mixes_images(model.graph) else [])]
    with OptimisedFiles(options) if keeps else nullcontext() as files:
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(),
                options,
                providers=None if callable(providers) else list(providers),
                disabled_optimizers=disabled,
            )
        except RUNTIME_ERRORS as error:
            raise runtime_failure("ONNX Runtime refused the model", error) from error
        return OnnxSession(session, values, NO_GRAPH if files is None else files.read())


def restore_session(optimised: bytes, weights: Mapping[str, Array], threads: int) -> OnnxSession | None:
    """Return a session for a graph that ONNX Runtime has optimised already; None if it refuses the graph.

    ``weights`` are the constants whose data the graph lacks.
    """
    options = session_options(threads)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _FATAL_ONLY
    try:
        values = _given(options, weights)
        return OnnxSession(onnxruntime.InferenceSession(optimised, options, providers=list(CPU)), values)
    except RUNTIME_ERRORS:
        return None


def _given(options: onnxruntime.SessionOptions, weights: Mapping[str, Array]) -> tuple[Array, ...]:
    """Have a session use constants where they are, which must live as long."""
    buffers = tuple(values.reshape(-1).view(np.uint8) for values in weights.values())
    # ONNX Runtime copies values that it is given one by one. To it, each of these is the content of a file.
    options.add_external_initializers_from_files_in_memory(list(weights), buffers, [len(each) for each in buffers])
    options.add_session_config_entry("session.use_external_initializer_file_buffers_directly", "1")
    return buffers


Bind = Callable[[str, int, Sequence[int], int], None]
"""Binds a tensor by its name, its element type of ONNX, its dimensions and its address."""


def binders(bound: onnxruntime.IOBinding) -> tuple[Bind, Bind]:
    """Return the functions that bind an input and an output to memory. ONNX Runtime's own methods make the device anew
    each time, which takes twice as long as all else.
    """
    device = onnxruntime.OrtDevice.make("cpu", 0)
    own, made = getattr(bound, "_iobinding", None), getattr(device, "_ort_device", None)

    def through(bind: Callable[..., None]) -> Bind:
        return lambda name, code, dimensions, address: bind(name, made, code, dimensions, address)

    def plainly(bind: Callable[..., None]) -> Bind:
        return lambda name, code, dimensions, address: bind(name, "cpu", 0, code, dimensions, address)

    if own is None or made is None:
        return plainly(bound.bind_input), plainly(bound.bind_output)
    return through(own.bind_input), through(own.bind_output)


def bound_run(session: onnxruntime.InferenceSession, inputs: onnxruntime.IOBinding) -> Callable[[Any], None]:
    """Return what runs a session with its bindings, given options.

    ``run_with_iobinding`` of ONNX Runtime asks each time whether WebGPU captures the graph, which takes half a
    microsecond, a third of the shortest run; what it calls then does not.
    """
    inner, bound = _inner(session), getattr(inputs, "_iobinding", None)
    if inner is None or bound is None:
        return partial(session.run_with_iobinding, inputs)
    return partial(inner.run_with_iobinding, bound)


def named_run(
    session: onnxruntime.InferenceSession,
) -> Callable[[Sequence[str], Mapping[str, Any], Any], Sequence[Any]]:
    """Return the function that runs a session, given names of outputs, all inputs, and options: it checks no more than
    ``bound_run``.
    """
    run: Callable[[Sequence[str], Mapping[str, Any], Any], Sequence[Any]] = (_inner(session) or session).run
    return run


def _inner(session: onnxruntime.InferenceSession) -> Any:
    """The session that ONNX Runtime's Python calls; None if it has none or one that needs more than a call."""
    return getattr(session, "_sess", None) if session.get_providers() == list(CPU) else None


class StoppableRuns:
    """The runs of one binding of a session, one at a time. The host can stop them."""

    def __init__(self) -> None:
        self._renew()

    def __call__(self, control: Control, run: Callable[[onnxruntime.RunOptions], T]) -> T:
        """Call ``run`` with options that ``control`` can have it stopped by. Raises HalError."""
        control.stop = self._stop
        try:
            control.check()
            return run(self._options)
        except RUNTIME_ERRORS as error:
            control.check()
            raise runtime_failure("ONNX Runtime failed", error) from error
        finally:
            control.stop = None
            if control.interrupted:
                self._renew()

    def _renew(self) -> None:
        """Make options that nobody else has: those of a run that was stopped would stop the next run too."""
        self._options = onnxruntime.RunOptions()
        self._options.log_severity_level = _FATAL_ONLY  # what fails is raised, and a run that is stopped is no error
        self._options.add_run_config_entry(*_NO_GRAPH_CAPTURE)
        self._stop = partial(setattr, self._options, "terminate", True)


# Some builds send telemetry unless it is disabled in this way.
onnxruntime.disable_telemetry_events()


def session_options(threads: int) -> onnxruntime.SessionOptions:
    """The options of ONNX Runtime for running a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Other processes share the cores: threads that wait must not spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry(
        "optimization.constant_folding_max_output_size_in_bytes", str(LARGEST_FOLDED_BYTES)
    )
    if sums_saturate():
        # Signed weights become unsigned: slower, but exact.
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options
