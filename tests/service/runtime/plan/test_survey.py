"""Devices that die or stop while they are asked about a model: it is loaded without them."""

from __future__ import annotations

import signal
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.v1 import backend_pb2
from nnhal_frontends import import_model
from nnhal_service.partition import Options, Strategy
from nnhal_service.runtime import Fleet, prepare
from nnhal_service.runtime.plan.survey import survey_model
from tests.support.repositories import onnx_file
from tests.support.scripted import ScriptedDevice, scripted_process
from tests.support.waiting import wait_until

QUESTIONS = ["Backend.Describe", "Backend.AssessModel"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_device_that_dies_during_a_question_is_left_out(short_path: Path, cpu_ref: Endpoint, question: str) -> None:
    with ExitStack() as stack:
        process, npu = stack.enter_context(scripted_process(short_path / "npu", dies_at=question))
        fleet = stack.enter_context(closing(Fleet({"npu": npu, "cpu_ref": cpu_ref})))
        prepared = prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), Options(Strategy.NNAPI))
        stack.callback(prepared.release)
        assert process.wait() == -signal.SIGKILL
        assert [step.device for step in prepared.plan.steps] == ["cpu_ref"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_device_that_stops_during_a_question_is_left_out_until_it_continues(
    short_path: Path, cpu_ref: Endpoint, question: str
) -> None:
    with ExitStack() as stack:
        process, npu = stack.enter_context(scripted_process(short_path / "npu", stops_at=question))
        fleet = stack.enter_context(closing(Fleet({"npu": npu, "cpu_ref": cpu_ref}, patience=1.0)))
        prepared = prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), Options(Strategy.NNAPI))
        stack.callback(prepared.release)
        assert [step.device for step in prepared.plan.steps] == ["cpu_ref"]
        assert [member.name for member in fleet.available()] == ["cpu_ref"]
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: len(fleet.available()) == 2, "the device is used again")


def test_a_device_is_asked_of_a_model_once(short_path: Path, cpu_ref: Endpoint) -> None:
    operation = backend_pb2.OperationSupport(supported=True)
    answer = backend_pb2.AssessModelResponse(operations=[operation], operation_ns=[1.0])
    with ExitStack() as stack:
        npu = stack.enter_context(ScriptedDevice(Endpoint(short_path / "npu"), {"Backend.AssessModel": answer}))
        fleet = stack.enter_context(closing(Fleet({"npu": npu.endpoint, "cpu_ref": cpu_ref})))
        stack.callback(prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), Options()).release)
        asked = [name for name, request in npu.calls if hasattr(request, "model")]
    assert asked == ["Backend.AssessModel", "Backend.OptimizeSubgraph", "Device.PrepareModelWithConfig"]
    surveyed, optimized, prepared = (request.model for _, request in npu.calls if hasattr(request, "model"))
    assert surveyed == optimized == prepared


def test_a_device_without_optimiser_and_context_is_not_called_for_them(short_path: Path, cpu_ref: Endpoint) -> None:
    described = backend_pb2.DescribeResponse(name="npu", alignment=1, optimizes_nothing=True, ignores_networks=True)
    operation = backend_pb2.OperationSupport(supported=True)
    script = {
        "Backend.Describe": described,
        "Backend.AssessModel": backend_pb2.AssessModelResponse(operations=[operation], operation_ns=[1.0]),
    }
    with ExitStack() as stack:
        npu = stack.enter_context(ScriptedDevice(Endpoint(short_path / "npu"), script))
        fleet = stack.enter_context(closing(Fleet({"npu": npu.endpoint, "cpu_ref": cpu_ref})))
        prepared = prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), Options())
        assert [step.device for step in prepared.plan.steps] == ["npu"]
        assert prepared.optimised(prepared.plan.steps[0]) == ()
        prepared.release()
        backend_calls = [name for name, _ in npu.calls if name.startswith("Backend.")]
    assert backend_calls == ["Backend.Describe", "Backend.AssessModel"]


def test_values_get_names_of_their_own_even_if_the_file_uses_a_name_twice(cpu_ref: Endpoint) -> None:
    given = replace(import_model(onnx_file(shape=(1, 8))), operand_names=("x", "x"))
    with closing(Fleet({"cpu_ref": cpu_ref})) as fleet:
        assert survey_model(given, fleet, ()).value_names == ["x", "x (operand 1)"]
        assert survey_model(replace(given, operand_names=("", "operand 0")), fleet, ()).value_names == [
            "operand 0",
            "operand 0 (operand 1)",
        ]
