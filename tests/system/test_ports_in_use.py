"""Processes whose port another process uses say so in one line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal_hosting.access import TcpListener
from tests.support.command import command, nnhal


@pytest.fixture
def taken() -> Iterator[str]:
    with TcpListener("127.0.0.1", 0).listen() as listening:
        yield str(listening.getsockname()[1])


def in_use(port: str, option: str) -> str:
    return (
        f"cannot listen at 127.0.0.1:{port}: the port is in use by another process; {option} names another, and port 0 "
        "takes any that is free\n"
    )


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
    option = {"dashboard": "--port", "device": "--listen"}.get(
        process, f"--{process}-port ({process}_port of [framework] in a topology)"
    )
    done = nnhal(*arguments[process])
    assert done.returncode == 2
    assert done.stderr == f"nnhal {arguments[process][0]}: {in_use(taken, option)}"


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
    told = re.sub(r"null: process \d+ serves, driver null\n", "", done.stderr)
    assert told == f"nnhal serve: {in_use(taken, '--http-port (http_port of [framework] in a topology)')}"


@pytest.mark.slow
def test_the_option_that_is_told_is_one_of_up(taken: str, short_path: Path) -> None:
    (short_path / "models").mkdir()
    words = [
        "up",
        "--devices=null",
        "--directory",
        str(short_path / "bed"),
        "--model-repository",
        f"{short_path}/models",
    ]
    first = nnhal(*words, "--http", "0", "--grpc", taken, "--metrics", "0", "--no-dashboard")
    (option,) = re.findall(r"; (--[a-z-]+) ", first.stderr)
    (key,) = re.findall(r"\((\w+) of \[framework\]", first.stderr)
    assert first.returncode == 1
    free = ["--http-port=0", option, "0", "--metrics-port", "0", "--allow-client-shm"]
    with started_testbed(words, [*free, "--dashboard", taken], "dashboard: goes without") as told:
        refused = next(line for line in told if line.startswith("nnhal dashboard:"))
        assert refused == f"nnhal dashboard: {in_use(taken, '--dashboard (port of [dashboard] in a topology)')}"
    topology = short_path / "topology.toml"
    topology.write_text(f"[framework]\n{key} = 0\nhttp_port = {taken}\nmetrics_port = 0\nallow_client_shm = true\n")
    with started_testbed(
        words[:1] + words[2:], [f"--topology={topology}", "--http=0", "--dashboard=0"], "ready:"
    ) as told:
        names = [line.partition(":")[0] for line in told]
        assert names[:2] == ["cpu_acc", "cpu_ref"]
        assert "framework" in names


@contextmanager
def started_testbed(words: list[str], options: list[str], until: str) -> Iterator[list[str]]:
    """Run ``nnhal up`` until it has said that; yields what it has said."""
    with subprocess.Popen(command([*words, *options]), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            told = []
            for line in running.stderr:
                told.append(line)
                if until in line:
                    break
            assert until in told[-1], "".join(told)
            yield told
        finally:
            running.terminate()
            running.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--http-prot", "0"], "No such option: --http-prot"),
        (["--http-port", "none"], "nnhal up: http_port 'none': "),
        (["--grpc", "x:y"], "'x:y': expected [HOST:]PORT, with port 0 for any that is free"),
        (["--allow-client-shm=maybe"], "'maybe': expected true or false"),
    ],
)
def test_a_wrong_option_is_told_before_a_process_starts(words: list[str], told: str, short_path: Path) -> None:
    done = nnhal("up", "--directory", str(short_path / "bed"), *words)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.replace("│", "").split())
    assert not (short_path / "bed").exists()


@pytest.mark.slow
def test_a_testbed_with_a_driver_that_there_is_not_says_so_once(short_path: Path) -> None:
    topology = short_path / "topology.toml"
    topology.write_text('[[device]]\ndriver = "bogus"\n')
    done = nnhal("up", str(topology), "--directory", str(short_path / "bed"), "--no-dashboard")
    assert done.returncode == 1
    assert done.stderr.startswith("nnhal device: no driver is called 'bogus'; there are ")
    assert done.stderr.count("\n") == 1
