"""A testbed on one host: device processes and a framework, from one topology file."""

from nnhal_tools.up.single import RenewableDevice, opened_device, served_endpoint, single_device
from nnhal_tools.up.testbed import Testbed
from nnhal_tools.up.topology import DEFAULT_TOPOLOGY, DeviceEntry, Topology, TopologyError, read_topology

__all__ = [
    "DEFAULT_TOPOLOGY",
    "DeviceEntry",
    "RenewableDevice",
    "Testbed",
    "Topology",
    "TopologyError",
    "opened_device",
    "read_topology",
    "served_endpoint",
    "single_device",
]
