"""Modules that a start loads: what it does not use costs it nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cascades import write_network
from tests.support.mlip_onnx import write_digits
from tests.support.tflite_files import floats
from tests.support.tflite_operators import one

MODELS = {"onnx", "onnxruntime", "tflite", "flatbuffers"}
HTTP = {"fastapi", "starlette", "uvicorn", "httptools", "orjson", "prometheus_client"}
COMMAND = {"typer", "click", "rich", "pygments"}
ON_DEMAND = {"structlog", "opentelemetry"}
REFLECTION = "grpc_reflection.v1alpha.reflection"
SHOW = "import sys; print(*sys.modules)"
OF_A_COMMAND = f"import atexit; atexit.register(lambda: exec({SHOW!r})); from nnhal_tools.cli import main; main()"
UNTIL_READY = """
import sys
from nnhal_hosting.supervision import Supervision
Supervision.wait = lambda _: print(*sys.modules)
from {package}.__main__ import main
main()
"""


def loaded(program: str, *arguments: str) -> set[str]:
    """The modules that a program has loaded when it prints them on its last line."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_a_client_loads_grpc_protobuf_and_numpy_only() -> None:
    allowed = packages(loaded(f"import google.protobuf, grpc, ml_dtypes, numpy; {SHOW}")) | sys.stdlib_module_names
    found = packages(loaded(f"import nnhal_client, nnhal_client.aio; {SHOW}"))
    assert found - allowed == {"nnhal", "nnhal_client"}


def test_a_tflite_file_is_imported_without_what_reads_onnx(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(one("TANH", [floats(2, 3)], floats(2, 3)).file())
    program = "import sys; from pathlib import Path; from nnhal_frontends import import_file; "
    found = packages(loaded(f"{program} import_file(Path(sys.argv[1])).resolved(); {SHOW}", str(path)))
    needed = packages(loaded(f"import flatbuffers, numpy, tflite; {SHOW}")) | sys.stdlib_module_names
    assert found - needed == {"nnhal", "nnhal_frontends"}


def test_what_makes_the_files_of_the_readme_needs_no_tools_of_developers() -> None:
    found = packages(loaded(f"import tests.support.mobilenet; {SHOW}"))
    assert not found & {"pytest", "ai_edge_litert"}


def test_help_loads_none_of_the_commands() -> None:
    found = loaded(OF_A_COMMAND, "--help")
    of_native = {"nnhal_tools.cli.completion", "nnhal_tools.cli.launch"}  # without nnhal-native, and with it
    assert {module for module in found if module.startswith("nnhal_tools.")} - of_native == {
        "nnhal_tools.cli",
        "nnhal_tools.cli.app",
        "nnhal_tools.cli.former_names",
        "nnhal_tools.cli.programs",
        "nnhal_tools.cli.waiting",
    }
    unused = MODELS | HTTP | ON_DEMAND | {"numpy", "grpc", "pydantic", "asyncio", "nnhal_client"}
    assert packages(found) & unused == set()


@pytest.mark.parametrize(
    ("words", "write", "unused"),
    [(["cascade"], write_network, {"onnx", "onnxruntime"}), (["mlip", "partition"], write_digits, set())],
)
def test_a_compiler_prints_an_object_without_what_it_does_not_need(
    tmp_path: Path, words: list[str], write: Callable[[Path], Path], unused: set[str]
) -> None:
    found = packages(loaded(OF_A_COMMAND, *words, str(write(tmp_path / "model")), "--json"))
    assert found & {"grpc", "rich", "asyncio", "nnhal_client", "nnhal_service", *unused} == set()


def test_cpu_ref_is_ready_without_onnx_kernels_and_logs(short_path: Path) -> None:
    found = loaded(UNTIL_READY.format(package="nnhal_devices"), "cpu_ref", "--endpoint", str(short_path))
    assert packages(found) & (MODELS | HTTP | COMMAND | ON_DEMAND) == set()
    assert {"nnhal_devices.cpu_ref.driver", "nnhal.kernels"} <= found
    assert {"nnhal.kernels.activation", "nnhal.operations.activation", REFLECTION} & found == set()
    assert not any(module.startswith(("nnhal.recording", "nnhal_devices.host.recording")) for module in found)


@pytest.mark.parametrize("driver", ["cpu_acc", "gpu_acc", "ethos_n", "ethos_u", "mlip"])
def test_other_devices_are_ready_without_what_they_do_not_use(short_path: Path, driver: str) -> None:
    found = loaded(UNTIL_READY.format(package="nnhal_devices"), driver, "--endpoint", str(short_path))
    assert packages(found) & (HTTP | COMMAND | ON_DEMAND) == set()
    assert REFLECTION not in found


def test_the_framework_is_ready_without_what_reads_models_and_serves_http(short_path: Path) -> None:
    found = loaded(UNTIL_READY.format(package="nnhal_service"), "--endpoint", str(short_path))
    assert packages(found) & (MODELS | HTTP | COMMAND | ON_DEMAND) == set()
    unused = {REFLECTION, "nnhal_service.model_server", "nnhal_service.v2", "nnhal_frontends.onnx"}
    assert unused & found == set()
