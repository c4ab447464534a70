"""Whether the constants that a nodes file names are those of the constants file."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal_mlip.flow.files.constants_file import ConstantsFile
from nnhal_mlip.flow.files.errors import FlowFilesError
from nnhal_mlip.flow.files.kernel_attributes import ConstantObject
from nnhal_mlip.flow.files.node_checks import place
from nnhal_mlip.flow.files.nodes_file import KernelNode, NodesFile
from nnhal_mlip.flow.files.scales import check_scales

_ROLES = ("kernel", "bias", "gamma", "beta", "mean", "var", "input")


def check_constants(nodes: NodesFile, constants: ConstantsFile) -> None:
    """Raise FlowFilesError, with the user's name of the layer, if a constant is missing, differs, or has no user."""
    used = set()
    for node in nodes.kernels:
        for name, stands_for in _named(node):
            used.add(name)
            if name not in constants.entries:
                raise FlowFilesError(f"{place(node)}: got constant '{name}', expected one of the constants file")
            entry = constants.entries[name]
            for key, given in stands_for.items():
                if given is not None and given != (held := getattr(entry, key)):
                    got = f"{key} {given} of constant '{name}'"
                    raise FlowFilesError(f"{place(node)}: got {got}, expected {held} as in the constants file")
    for name, entry in constants.entries.items():
        if name not in used:
            raise FlowFilesError(f"constant '{name}': got no layer that reads it, expected at least one")
        check_scales(f"constant '{name}'", entry.nnhal, entry.shape)


def _named(node: KernelNode) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the constants of a kernel, each with what the nodes file says of it."""
    for role in _ROLES:
        name: str | None = getattr(node.attrs, f"{role}_const_name", None)
        stands_for: ConstantObject | None = getattr(node.attrs, f"{role}_const", None)
        if (stands_for.name if stands_for else None) != name:
            got = f"{role}_const_name {name} and {role}_const {stands_for.name if stands_for else '{}'}"
            raise FlowFilesError(f"{place(node)}: got {got}, expected the same name")
        if name is not None and stands_for:
            yield name, stands_for.model_dump(exclude={"name"})
    for name in ((node.attrs.nnhal.constant_fields if node.attrs.nnhal else None) or {}).values():
        yield name, {}
