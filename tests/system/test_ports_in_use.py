"""Processes whose port another process uses say so in one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal_hosting.access import TcpListener
from tests.support.command import nnhal


@pytest.fixture
def taken() -> Iterator[str]:
    """A port that is in use."""
    with TcpListener("127.0.0.1", 0).listen() as listening:
        yield str(listening.getsockname()[1])


def free_ports(*protocols: str) -> list[str]:
    """Options of the framework by which the system chooses these ports."""
    return [f"--{protocol}-port=0" for protocol in protocols]


@pytest.mark.slow
@pytest.mark.parametrize("process", ["http", "grpc", "metrics", "dashboard", "device"])
def test_a_port_in_use_is_one_line(process: str, taken: str, short_path: Path) -> None:
    (short_path / "models").mkdir()
    serves = ["serve", "--endpoint", str(short_path / "framework"), "--model-repository", str(short_path / "models")]
    arguments = {
        "http": [*serves, "--http-port", taken, *free_ports("grpc", "metrics")],
        "grpc": [*serves, "--grpc-port", taken, *free_ports("http", "metrics")],
        "metrics": [*serves, "--metrics-port", taken, *free_ports("http", "grpc")],
        "dashboard": ["dashboard", "--directory", str(short_path), "--port", taken],
        "device": ["device", "null", "--endpoint", str(short_path), "--listen", f"127.0.0.1:{taken}", "--insecure"],
    }
    done = nnhal(*arguments[process])
    command = arguments[process][0]
    assert done.returncode == 2
    assert done.stderr == (
        f"nnhal {command}: cannot listen at 127.0.0.1:{taken}: the port is in use by another process; port 0 takes any "
        "that is free\n"
    )


@pytest.mark.slow
def test_a_testbed_whose_port_is_in_use_says_so_once(taken: str, short_path: Path) -> None:
    (short_path / "models").mkdir()
    topology = short_path / "topology.toml"
    topology.write_text(
        f'[framework]\nmodel_repository = ["{short_path / "models"}"]\nhttp_port = {taken}\ngrpc_port = 0\n'
        'metrics_port = 0\n[[device]]\ndriver = "null"\n'
    )
    done = nnhal("up", str(topology), "--directory", str(short_path / "bed"), "--no-dashboard")
    assert done.returncode == 1
    assert re.sub(r"null: process \d+ serves, driver null\n", "", done.stderr) == (
        f"nnhal serve: cannot listen at 127.0.0.1:{taken}: the port is in use by another process; port 0 takes any "
        "that is free\n"
    )


@pytest.mark.slow
def test_a_testbed_with_a_driver_that_there_is_not_says_so_once(short_path: Path) -> None:
    topology = short_path / "topology.toml"
    topology.write_text('[[device]]\ndriver = "bogus"\n')
    done = nnhal("up", str(topology), "--directory", str(short_path / "bed"), "--no-dashboard")
    assert done.returncode == 1
    assert done.stderr.startswith("nnhal device: no driver is called 'bogus'; there are ")
    assert done.stderr.count("\n") == 1
