"""The configuration file for Ray Serve."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import yaml

from nnhal_ray.options import ScaleOutOptions

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "deploy/ray/serve.yaml").read_text())


def test_its_arguments_are_those_of_the_only_application() -> None:
    (application,) = CONFIG["applications"]
    assert ScaleOutOptions.model_validate(application["args"]).tokens == Path("/etc/nnhal/tokens.toml")


def test_what_it_imports_is_there() -> None:
    (application,) = CONFIG["applications"]
    module, _, name = application["import_path"].partition(":")
    assert callable(getattr(import_module(module), name))
    (path,) = CONFIG["grpc_options"]["grpc_servicer_functions"]
    module, _, name = path.rpartition(".")
    assert callable(getattr(import_module(module), name))
