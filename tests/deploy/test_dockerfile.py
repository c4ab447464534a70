"""Inputs of a build of the images, and what it installs. Nothing is built."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.deploy.compose_file import ROOT

_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def let_through(path: str) -> bool:
    """Return whether .dockerignore, all of whose exceptions are folders, files and one pattern, lets a path through."""
    exceptions = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    return any(path == name or path.startswith(f"{name}/") for name in exceptions)


def requirements(*arguments: str) -> list[str]:
    done = [sys.executable, str(ROOT / "deploy/requirements.py"), str(ROOT / "pyproject.toml"), *arguments]
    return subprocess.run(done, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_build_is_given_every_package_and_the_files_that_packages_point_to() -> None:
    packages = _PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert [package for package in packages if not let_through(package)] == []
    links = [path for package in packages for path in (ROOT / package).rglob("*") if path.is_symlink()]
    pointed_to = [str(path.resolve().relative_to(ROOT)) for path in links]
    assert [path for path in pointed_to if not let_through(path)] == []


def test_a_build_is_given_what_the_dockerfile_copies() -> None:
    copied = re.findall(r"^COPY (?!--from)(?:--chown=\S+ )?(.+) \S+$", (ROOT / "deploy/Dockerfile").read_text(), re.M)
    sources = [source for line in copied for source in line.split() if source not in (".", "examples")]
    assert len(sources) == 6
    assert [source for source in sources if not (ROOT / source).exists() or not let_through(source)] == []


def test_no_source_or_secret_beside_the_packages_gets_into_a_build() -> None:
    for path in (".git", ".env", "tests", "docker-compose.yml", "secrets", "hal/.venv"):
        assert not let_through(path)


def test_requirements_are_those_of_the_extras_and_of_the_extras_in_them() -> None:
    project = _PYPROJECT["project"]
    assert requirements() == project["dependencies"]
    every = requirements("all", "otel")
    assert set(project["dependencies"]) < set(every)
    assert set(project["optional-dependencies"]["otel"]) < set(every)
    assert set(project["optional-dependencies"]["bfloat16"]) < set(every)  # 'all' has 'devices', which has it
    assert not [line for line in every if line.startswith("nnhal")]
    assert len(every) == len(set(every))
    assert set(requirements("--build")) - set(requirements()) == set(_PYPROJECT["build-system"]["requires"])


def test_a_build_can_take_another_package_of_onnx_runtime() -> None:
    (requirement,) = [line for line in requirements("all") if line.startswith("onnxruntime")]
    (replaced,) = re.findall(r'sed "s/\^(\w+)>/', (ROOT / "deploy/Dockerfile").read_text())
    assert requirement.startswith(f"{replaced}>")


def test_the_base_image_says_what_it_needs_before_it_begins(tmp_path: Path) -> None:
    for name in ("bash", "dpkg", "python3", "env"):
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    refused = subprocess.run(
        ["bash", str(ROOT / "deploy/base.sh")], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "needs mmdebstrap docker: on Debian and Ubuntu" in refused.stderr.replace("docker python3", "docker")
