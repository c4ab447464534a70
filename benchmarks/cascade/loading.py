"""TFLite networks as graphs that are planned."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nnhal.resolved import ResolvedModel
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_frontends import import_file

_VARIABLE = "NNHAL_MODELS"


class NoNetworksError(Exception):
    """The folder of the networks is not known. The message says what to set."""


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network in the three forms that a measurement needs."""

    path: Path
    model: ResolvedModel
    graph: CascaderGraph


def networks_folder() -> Path:
    """Return the folder that NNHAL_MODELS names. Raises NoNetworksError."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        raise NoNetworksError(f"{_VARIABLE} is not set: it names the folder of the TFLite networks")
    return Path(folder)


def load(path: Path) -> LoadedNetwork:
    """Read a network. Raises FrontendError, ValueError and OSError."""
    model = import_file(path).resolved()
    return LoadedNetwork(path, model, encoded_graph(model))
