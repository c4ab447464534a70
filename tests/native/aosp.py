"""Compile AOSP's tests of NeuralNetworks.h against the library, and run them: python -m tests.native.aosp SOURCES

SOURCES is a folder of the NeuralNetworks module of the Android Open Source Project: ``include``, ``test``,
``test_harness``, and folders ``generated_*`` of tests that its generator has made. What Android has and the tests only
touch is in ``android_stubs``. Needs g++, and googletest (libgtest-dev, libgmock-dev).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nnhal_native import library_path
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed

_STUBS = Path(__file__).parent / "android_stubs"
_SMALL = ("ControlFlow", "Free", "Memory", "OperandExtraParams", "TrivialModel", "Updatability", "Wrapper")


def main(sources: Path) -> int:
    """Compile and run all, print a line for each program, and return how many have failed."""
    with tempfile.TemporaryDirectory(prefix="nnhal-aosp-") as name:
        built = Path(name)
        programs = _programs(sources)
        files = sorted({file for group in programs.values() for file in group})
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda file: _compile(sources, file, built), files))
        failed = 0
        with Testbed(DEFAULT_TOPOLOGY, built / "testbed") as testbed:
            environment = {
                **os.environ,
                "LD_LIBRARY_PATH": str(library_path("ndk").parent),
                "NNHAL_FRAMEWORK": str(testbed.framework),
            }
            for program, group in programs.items():
                executable = _link(program, group, built)
                failed += not _passes(program, executable, environment)
    return failed


def _programs(sources: Path) -> Mapping[str, Sequence[Path]]:
    test = sources / "test"
    own = [test / "TestMain.cpp", _STUBS / "compute_mode.cpp"]
    programs = {
        "small": [*own, *(test / f"Test{name}.cpp" for name in _SMALL)],
        "validation": [*own, test / "TestValidation.cpp"],
    }
    harness = [test / "TestGenerated.cpp", test / "GeneratedTestUtils.cpp", sources / "test_harness/TestHarness.cpp"]
    for folder in sorted(sources.glob("generated_*")):
        programs[folder.name] = [*own, *harness, *sorted(folder.glob("*.cpp"))]
    return programs


def _compile(sources: Path, file: Path, built: Path) -> None:
    folders = (_STUBS, sources / "include", sources / "test", sources / "test_harness/include")
    included = [f"-I{folder}" for folder in folders]
    options = ["-std=c++20", "-O0", "-w", "-DNNTEST_ONLY_PUBLIC_API", "-include", str(_STUBS / "prelude.h")]
    subprocess.run(["g++", *options, *included, "-c", str(file), "-o", str(_object(file, built))], check=True)


def _object(file: Path, built: Path) -> Path:
    return built / f"{file.parent.name}_{file.stem}.o"


def _link(program: str, files: Sequence[Path], built: Path) -> Path:
    objects = [str(_object(file, built)) for file in files]
    libraries = [str(library_path("ndk")), "-lgtest", "-lgmock", "-lpthread"]
    executable = built / program
    subprocess.run(["g++", "-o", str(executable), *objects, *libraries], check=True)
    return executable


def _passes(program: str, executable: Path, environment: Mapping[str, str]) -> bool:
    """Run a program, which executes in one way after the other, and say how it went."""
    # A suite of AOSP's is without tests by the public API, which googletest calls a failure.
    command = [str(executable), "--gtest_filter=-GoogleTestVerification.*"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    passed = len(re.findall(r"^\[       OK", ended.stdout, re.MULTILINE))
    failures = sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)", ended.stdout, re.MULTILINE)))
    print(f"{program}: {passed} passed, {len(failures)} failed, ended with {ended.returncode}", flush=True)
    for name in failures:
        print(f"  {name}")
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
