"""Channels that are closed while stubs are made of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import nnhal.v1
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError
from nnhal.remote import open_rpc
from nnhal.v1 import device_pb2, device_pb2_grpc
from tests.support.scripted import Serve


def stub_types() -> list[type]:
    names = [module.name for module in pkgutil.iter_modules(nnhal.v1.__path__) if module.name.endswith("_pb2_grpc")]
    modules = [importlib.import_module(f"nnhal.v1.{name}") for name in names]
    classes = [found for module in modules for _, found in inspect.getmembers(module, inspect.isclass)]
    return [found for found in classes if found.__name__.endswith("Stub")]


@pytest.mark.parametrize("stub_type", stub_types(), ids=lambda stub_type: stub_type.__name__)
def test_a_stub_can_be_made_of_a_closed_channel(short_path: Path, stub_type: type) -> None:
    channel = open_rpc(Endpoint(short_path))
    channel.close()
    assert vars(stub_type(channel))


def test_a_call_on_a_closed_channel_is_refused(short_path: Path) -> None:
    with open_rpc(Endpoint(short_path)) as channel:
        stub = device_pb2_grpc.DeviceServiceStub(channel)
    later = device_pb2_grpc.DeviceServiceStub(channel)
    for made in (stub, later):
        with pytest.raises(ValueError, match="closed channel"):
            made.GetType(device_pb2.GetTypeRequest())
        with pytest.raises(ValueError, match="closed channel"):
            made.PrepareModel(device_pb2.PrepareModelRequest())


def test_objects_that_are_made_after_the_session_was_closed_are_dead(scripted: Serve) -> None:
    device, _ = scripted()
    device.close()
    with pytest.raises(DeadObjectError, match="closed"):
        device.open_launcher()
