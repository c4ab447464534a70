"""Native clients of models that the server unloads: they are told so, on every way, by one status and one sentence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from onnx import helper

from nnhal.errors import HalError
from nnhal.inference import grpc_service_pb2 as v2
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Framework, Model, V2Server, connect
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import onnx_model
from tests.support.repositories import write
from tests.support.waiting import wait_until

UNLOAD = "RepositoryModelUnload", v2.RepositoryModelUnloadResponse
LOAD = "RepositoryModelLoad", v2.RepositoryModelLoadResponse
UNLOADED = (ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
ROUNDS = 12


def model_file() -> bytes:
    """Return ``y = relu(tanh(x))``."""
    nodes = [helper.make_node("Tanh", ["x"], ["t"], name="first"), helper.make_node("Relu", ["t"], ["y"], name="last")]
    return onnx_model(nodes, {"x": (1, 8)}, ["y"]).SerializeToString()


def config(**parameters: str) -> str:
    return "".join(
        f'parameters {{ key: "nnhal.{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in parameters.items()
    )


MODELS = {
    "one_step": config(devices="cpu_acc, cpu_ref"),
    "on_one_device": config(devices="cpu_acc", fallback="deny"),
    "two_steps": config(placement="name:first=cpu_acc; name:last=cpu_ref", min_nodes_per_partition="1"),
}


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("repository")
    for name, text in MODELS.items():
        write(repository, name, {"1/model.onnx": model_file(), "config.pbtxt": text})
    with model_server(device_processes, repository) as process:
        yield process


def over_the_channel(session: Framework, model: Model) -> Callable[[], object]:
    return model.bind(direct=False).run


def directly(session: Framework, model: Model) -> Callable[[], object]:
    return model.bind().run


def by_run(session: Framework, model: Model) -> Callable[[], object]:
    binding = model.bind(direct=False)
    request = wire.RunRequest(binding=binding._handle, deadline_ns=NO_DEADLINE)
    return lambda: (binding, session.calls.call(session.stub.Run, request))


def launched(session: Framework, model: Model) -> Callable[[], object]:
    binding = model.bind(direct=False)
    return lambda: binding.launch().wait()


def by_binding(session: Framework, model: Model) -> Callable[[], object]:
    return lambda: model.bind().close()


def by_allocating(session: Framework, model: Model) -> Callable[[], object]:
    return lambda: session.allocate([model.input_role("x")]).close()


WAYS = [over_the_channel, directly, by_run, launched, by_binding, by_allocating]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_clients_under_unloading_are_told_that_and_nothing_else(served: Served, name: str) -> None:
    over = threading.Event()
    told: set[tuple[ErrorStatus, str]] = set()
    calls = Counter[str]()

    def use(way: Callable[[Framework, Model], Callable[[], object]]) -> None:
        with connect(served.endpoint.directory) as session:
            while not over.is_set():
                try:
                    call = way(session, session.open(name))
                    while not over.is_set():
                        call()
                        calls[way.__name__] += 1
                except HalError as error:
                    told.add((error.status, error.message))

    with ThreadPoolExecutor(len(WAYS)) as pool, V2Server(served.grpc) as server:
        users = [pool.submit(use, way) for way in WAYS]
        try:
            for _ in range(ROUNDS):
                calls.clear()
                wait_until(lambda: len(calls) == len(users) or any(map(Future.done, users)), "all run it")
                server.call(UNLOAD, v2.RepositoryModelUnloadRequest(model_name=name))
                server.call(LOAD, v2.RepositoryModelLoadRequest(model_name=name))
        finally:
            over.set()
        for user in users:
            user.result()
    not_ready = (ErrorStatus.DEVICE_UNAVAILABLE, f"Request for unknown model: '{name}' is not at ready state")
    assert told - {not_ready} == {UNLOADED}
