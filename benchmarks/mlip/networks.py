"""The networks: as graphs to compile, and as shapes for the formulas alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from tests.support import flow_networks, mlip_networks


@dataclass(frozen=True, slots=True)
class BenchedNetwork:
    """A network with random weights and images of 224 x 224."""

    name: str
    graph: Callable[[], FlowGraph]
    formulas: Callable[[], list[mlip_networks.Layer]]
    """Its layers, without what passes between them."""


NETWORKS = (
    BenchedNetwork("ResNet-18", flow_networks.resnet18, mlip_networks.resnet18),
    BenchedNetwork("ResNet-50", flow_networks.resnet50, mlip_networks.resnet50),
    BenchedNetwork("MobileNet v1", flow_networks.mobilenet_v1, mlip_networks.mobilenet),
)
