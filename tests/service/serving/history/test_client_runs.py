"""Runs of native clients, which bind their own memory to a real model."""

from __future__ import annotations

import pytest
from onnx import helper

from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.types import DataLocation, ErrorStatus, RunUsage
from nnhal_service.runtime import ExecutionContext, LoadedModel, RunReport, TensorBinding
from nnhal_service.serving import ClientModelRuns, Executed, FailureReason, Finished, InferenceRequest, ServedModel
from nnhal_service.serving.history.client_runs import ClientRuns
from nnhal_service.serving.history.statistics import StatisticsRecorder
from tests.service.serving.conftest import Serve
from tests.support.onnx_models import onnx_model

ROWS = 4
BYTES = ROWS * 3 * 4
LONG_AGO_NS = 1


class Noted:
    """An observer that keeps the runs that it is told of."""

    def __init__(self) -> None:
        self.runs: list[Executed] = []

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        raise AssertionError("a client's run is no request of a protocol")

    def executed(self, executed: Executed) -> None:
        self.runs.append(executed)

    def finished(self, finished: Finished) -> None:
        raise AssertionError("a client's run is no request of a protocol")


@pytest.fixture
def served(serve: Serve) -> ServedModel:
    """y = relu(x), of four rows."""
    return serve(onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (ROWS, 3)}, ["y"]))


def bound(model: LoadedModel, measure: bool = False) -> ExecutionContext:
    x, y = (DataLocation(0, offset, BYTES) for offset in (0, BYTES + 16))
    pools = [create_ashmem(4096, "client")]
    return model.bind([TensorBinding("x", x)], [TensorBinding("y", y)], pools, measure)


@pytest.mark.parametrize("has_batches", [False, True])
def test_each_run_is_a_request_and_an_execution(served: ServedModel, has_batches: bool) -> None:
    recorder, items = StatisticsRecorder(), ROWS if has_batches else 1
    runs, model = ClientRuns("m", "1", has_batches, recorder).of("c"), served.open()
    context = bound(model)
    runs.ran(context, RunReport(1000, 0))
    runs.ran(context, RunReport(3000, 0))
    runs.failed(context, 500, HalError(ErrorStatus.GENERAL_FAILURE, "no"))
    runs.ran_directly(context, RunUsage(10, 2, 5000))
    seen = recorder.snapshot(0)
    assert (seen.inference_count, seen.execution_count) == (12 * items, 12)
    assert (seen.success.count, seen.success.ns, seen.compute_infer.ns) == (12, 9000, 9000)
    assert (seen.fail.count, seen.fail.ns, seen.failures[FailureReason.BACKEND]) == (3, 500, 3)
    assert seen.batches[items].compute_infer.count == 12
    assert seen.queue.ns == 0
    assert seen.last_inference_ms > 0
    model.close()


def test_what_was_lent_counts_when_it_is_known(served: ServedModel) -> None:
    recorder, model, noted = StatisticsRecorder(), served.open(), Noted()
    runs, context = ClientRuns("m", "1", False, recorder, [noted]).of("c"), bound(model)
    runs.ran_directly(context, RunUsage(0, 2, 0))
    assert recorder.snapshot(0).last_inference_ms == 0
    assert not noted.runs
    runs.ran_directly(context, RunUsage(5, 1, 700))
    seen = recorder.snapshot(0)
    assert (seen.success.count, seen.success.ns) == (5, 700)
    assert seen.failures[FailureReason.BACKEND] == 3
    (told,) = noted.runs
    assert (told.runs, told.timing, told.steps) == (5, None, ("cpu_acc",))
    model.close()


@pytest.mark.parametrize("measure", [False, True])
def test_observers_are_told_of_each_run_as_it_was_or_as_it_was_planned(serve: Serve, measure: bool) -> None:
    noted = Noted()
    served = serve(onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (ROWS, 3)}, ["y"]), samplers=[noted])
    model = served.open()
    context = bound(model, measure)
    report = context.run()
    with pytest.raises(HalError):
        context.run(LONG_AGO_NS)
    (told,) = noted.runs
    assert (told.model_name, told.model_version, told.report, told.runs) == ("m", "1", report, 1)
    assert told.steps == ("cpu_acc",)
    assert [(edge.source, edge.destination, edge.bytes) for edge in told.edges] == [
        ("", "cpu_acc", BYTES),
        ("cpu_acc", "", BYTES),
    ]
    assert told.timing is not None
    assert told.timing.run_ended_ns - told.timing.run_started_ns == report.duration_ns
    model.close()


@pytest.mark.parametrize("measure", [False, True])
def test_runs_of_models_that_clients_have_loaded_count_by_device(served: ServedModel, measure: bool) -> None:
    runs, model = ClientModelRuns(), served.open()
    watcher = runs.of("m", "c")
    model.watch(watcher)
    context = bound(model, measure)
    report = context.run()
    with pytest.raises(HalError):
        context.run(LONG_AGO_NS)
    watcher.ran_directly(context, RunUsage(3, 1, 100))
    watcher.ran(context, RunReport(7, 0, fell_back=True))
    usage = runs.usage()
    assert usage.runs == RunUsage(5, 2, report.duration_ns + 107)
    assert usage.steps == {"cpu_acc": 4}
    assert served.statistics().execution_count == 0
    model.close()
