"""Models of native clients that cost the client nothing, and whoever loads them much."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2_grpc
from nnhal_client import Framework, connect
from nnhal_hosting.calls import CallLimits
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.runtime import Fleet
from tests.support.onnx_models import onnx_model
from tests.support.repositories import onnx_file

LOAD_BYTES = 100_000


@pytest.fixture
def client(cpu_ref: Endpoint, short_path: Path) -> Iterator[Framework]:
    with framework(cpu_ref, short_path, LOAD_BYTES) as session:
        yield session


@contextmanager
def framework(cpu_ref: Endpoint, folder: Path, load_bytes: int) -> Iterator[Framework]:
    """A framework in this process, whose clients' models may take so much memory while they are loaded."""
    endpoint = Endpoint(folder / "framework", "framework")
    fleet, sessions = Fleet({"cpu_ref": cpu_ref}), NativeSessions(NativeSession)
    server = ServerProcess(endpoint, sessions.opened, SessionLimits(), CallLimits())
    servicer = FrameworkServicer(fleet, sessions, load_bytes=load_bytes)
    framework_pb2_grpc.add_FrameworkServiceServicer_to_server(servicer, server.rpc)
    with server, connect(endpoint.directory) as session:
        yield session
    fleet.close()


def sealed(content: bytes, size: int) -> str:
    """A memfd of a size that begins with a content and can no longer change; returns its path in this process."""
    number = os.memfd_create("model", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(number, size)
    os.pwrite(number, content, 0)
    fcntl.fcntl(number, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return f"/proc/self/fd/{number}"


def test_a_sparse_file_is_refused_before_it_is_read(client: Framework, tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, (1 << 31) - 1)
    with pytest.raises(HalError) as caught:
        client.load(path)
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    assert caught.value.message == (
        f"loading the model file takes {3 * ((1 << 31) - 1)} bytes; client 'nnhal-client' (pid {os.getpid()}, uid "
        f"{os.getuid()}) holds 0 of the {LOAD_BYTES * 49 // 64} that it may have at present, and all clients together "
        f"hold 0 of {LOAD_BYTES} (NNHAL_SERVICE_LOAD_BYTES)"
    )


def test_a_model_that_fits_is_loaded_from_a_file_that_can_change_and_from_one_that_cannot(
    client: Framework, tmp_path: Path
) -> None:
    content = onnx_file(shape=(1, 8))
    (tmp_path / "model").write_bytes(content)
    for path in (str(tmp_path / "model"), sealed(content, len(content))):
        with client.load(path) as model:
            assert model.inputs


def test_a_large_model_is_read_whole(cpu_ref: Endpoint, short_path: Path, tmp_path: Path) -> None:
    weights = np.arange(3 << 20, dtype=np.float32)
    added = onnx_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [1]}, ["y"], {"w": weights})
    (tmp_path / "model").write_bytes(added.SerializeToString())
    with (
        framework(cpu_ref, short_path, 1 << 30) as session,
        session.load(tmp_path / "model") as model,
        model.bind() as binding,
    ):
        binding.inputs["x"][...] = 1
        binding.run()
        assert np.array_equal(binding.outputs["y"], weights + 1)


def test_zeros_are_no_model(client: Framework) -> None:
    with pytest.raises(HalError, match="10000 bytes that are neither an ONNX nor a TFLite model"):
        client.load(sealed(b"", 10_000))
