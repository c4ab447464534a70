"""The layers of the sources: which package may import which. Imports point down only."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "nnhal": ROOT / "hal/nnhal",
    "nnhal_hosting": ROOT / "hosting/nnhal_hosting",
    "nnhal_frontends": ROOT / "frontends/nnhal_frontends",
    "nnhal_cascade": ROOT / "compilers/nnhal_cascade",
    "nnhal_mlip": ROOT / "compilers/nnhal_mlip",
    "nnhal_devices": ROOT / "devices/nnhal_devices",
    "nnhal_service": ROOT / "service/nnhal_service",
    "nnhal_client": ROOT / "client/nnhal_client",
    "nnhal_pages": ROOT / "pages/nnhal_pages",
    "nnhal_dashboard": ROOT / "dashboard/nnhal_dashboard",
    "nnhal_conformance": ROOT / "conformance/nnhal_conformance",
    "nnhal_tools": ROOT / "tools/nnhal_tools",
    "nnhal_ray": ROOT / "scaleout/nnhal_ray",
    "nnhal_ort": ROOT / "frontends/ort_ep/nnhal_ort",
    "nnhal_native": ROOT / "native/nnhal_native",
}
COMPILERS = ("nnhal_cascade", "nnhal_mlip")
"""Compilers for devices. A compiler turns a model into a plan, or runs it, and has no process, no wire and no device.
Its room ``command`` is its sub-command of ``nnhal``, with the reports: only that reads files and knows pages.
"""
OF_V2_SERVERS = {"nnhal_service.access", "nnhal_service.serving", "nnhal_service.v2"}
"""What a replica of Ray Serve may import of the framework: it refuses as the framework's own servers do, and by the
same guard.
"""
MAY_USE: dict[str, set[str]] = {
    "nnhal": set(),
    "nnhal_hosting": {"nnhal"},
    "nnhal_frontends": {"nnhal"},
    "nnhal_cascade": {"nnhal", "nnhal_frontends", "nnhal_pages"},
    "nnhal_mlip": {"nnhal", "nnhal_frontends", "nnhal_pages"},
    "nnhal_devices": {"nnhal", "nnhal_hosting", *COMPILERS},
    "nnhal_service": {"nnhal", "nnhal_hosting", "nnhal_frontends"},
    "nnhal_client": {"nnhal"},
    "nnhal_pages": {"nnhal", "nnhal_client"},
    "nnhal_dashboard": {"nnhal", "nnhal_hosting", "nnhal_client", "nnhal_pages"},
    "nnhal_conformance": {"nnhal"},
    "nnhal_tools": {"nnhal", "nnhal_hosting", "nnhal_frontends", "nnhal_client", "nnhal_pages", "nnhal_conformance"},
    "nnhal_ray": {"nnhal", "nnhal_hosting", *OF_V2_SERVERS},
    "nnhal_ort": {"nnhal_tools"},
    "nnhal_native": {"nnhal", "nnhal_tools"},
}
"""Devices, framework and clients meet over sockets; the tools start other processes by module name."""
SERVICE_LAYERS = [
    {"operating", "front_workers"},
    {"native", "v2"},
    {"repository", "access", "observability"},
    {"serving"},
    {"runtime"},
    {"fallback", "partition"},
]
"""The layers of the service, from the top down. A layer may use those below; packages of one layer are independent."""
SERVING_ROOMS = ["models", "history", "instances", "queue", "config", "requests", "loop", "errors"]
"""The rooms of serving, and the modules beside them, from the top down: as those of the runtime."""
RUNTIME_ROOMS = ["loading", "context", "run", "memory", "plan", "devices"]
"""The rooms of the runtime, from the top down. A room may use those below it."""
HOST_ROOMS = ["wire", "servicers", "operating", "recording", "channels", "sessions", "runs", "memory"]
"""The rooms of a device's host, from the top down: as those of the runtime."""
MAX_FLOORS = 6
"""The longest chain of imports between modules of one room; a package within a room counts as one module."""
NOT_DRIVERS = {"dynamic", "faults", "host", "wire"}
AT_A_DISTANCE = {"remote"}
"""Drivers of devices on other hosts, whose business is a network. Like all drivers they do not know their own host."""
WIRE = {"grpc", "google", "nnhal.v1", "nnhal.codec", "nnhal.link", "nnhal.remote"}
PROCESSES = {"socket", "subprocess", "multiprocessing"}
NO_DRIVERS_BUSINESS = {"grpc", "socket", "nnhal_hosting", "nnhal_devices.host", "nnhal.link", "nnhal.v1"}


def modules_of(folder: Path) -> list[Path]:
    """Return all modules below a folder except generated ones."""
    return [path for path in sorted(folder.rglob("*.py")) if "v1" not in path.relative_to(folder).parts]


def dotted(path: Path) -> str:
    """Return a module's name, or the package's name for its ``__init__``."""
    package, folder = next((name, root) for name, root in PACKAGES.items() if path.is_relative_to(root))
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))


@cache
def imports_of(path: Path) -> list[str]:
    """Return everything that a module imports, at any place: modules, and names from them."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{dotted(path)} imports by a relative name"
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


def belongs(name: str, to: str) -> bool:
    return name == to or name.startswith(to + ".")


def within(name: str, packages: Iterable[str]) -> bool:
    return any(belongs(name, package) for package in packages)


def violations(modules: list[Path], forbidden: set[str], allowed: Collection[str] = ()) -> list[str]:
    """List the imports of forbidden packages, apart from those parts of them that are allowed."""
    return [
        f"{dotted(path)} imports {name}"
        for path in modules
        for name in imports_of(path)
        if within(name, forbidden) and not within(name, allowed)
    ]


def drivers() -> list[Path]:
    return [
        folder
        for folder in sorted(PACKAGES["nnhal_devices"].iterdir())
        if (folder / "__init__.py").exists() and folder.name not in NOT_DRIVERS
    ]


def layer_of(module: str) -> int | None:
    """Return the number of a module's layer from the top; None for modules that start the process, above all layers."""
    parts = module.split(".")
    part = parts[1] if len(parts) > 1 else ""
    return next((number for number, layer in enumerate(SERVICE_LAYERS) if part in layer), None)


def floors(folder: Path) -> int:
    """Return the length of the longest chain of a package's modules in which each imports the next."""
    package = dotted(folder / "__init__.py")
    uses: dict[str, set[str]] = {}
    for path in modules_of(folder):
        if path == folder / "__init__.py":
            continue
        room = package + "." + path.relative_to(folder).with_suffix("").parts[0]
        used = {".".join(name.split(".")[: room.count(".") + 1]) for name in imports_of(path) if belongs(name, package)}
        uses.setdefault(room, set()).update(used - {room})

    def height(module: str, above: frozenset[str] = frozenset()) -> int:
        assert module not in above, f"{module} imports itself, by way of {sorted(above)}"
        return 1 + max((height(used, above | {module}) for used in uses[module] if used in uses), default=0)

    return max(map(height, uses), default=1)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_knows_only_those_that_it_may(package: str) -> None:
    modules = modules_of(PACKAGES[package])
    assert modules
    assert violations(modules, PACKAGES.keys() - {package}, MAY_USE[package]) == []


def private_imports(path: Path) -> list[str]:
    """List a module's imports of names with an underscore that belong to another package of ours."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    found: list[str] = []
    for name in filter(lambda name: within(name, PACKAGES), imports_of(path)):
        parts = name.split(".")
        private = next((place for place, part in enumerate(parts) if part[0] == "_" != part[1:2]), None)
        if private is not None and not belongs(package, ".".join(parts[:private])):
            found.append(f"{dotted(path)} imports {name}")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_a_private_name_of_another(package: str) -> None:
    """An outside compiler or device can do what ours do: they use public names only."""
    assert not [found for path in modules_of(PACKAGES[package]) for found in private_imports(path)]


def test_benchmarks_know_nothing_of_tests() -> None:
    modules = modules_of(ROOT / "benchmarks")
    found = [(path.name, name) for path in modules for name in imports_of(path) if belongs(name, "tests")]
    assert modules and not found


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiler_is_pure(compiler: str) -> None:
    modules = [path for path in modules_of(PACKAGES[compiler]) if not within(dotted(path), {f"{compiler}.command"})]
    pure = {*sys.stdlib_module_names, "numpy", "nnhal", "pydantic", compiler}
    imports = [(dotted(path), name) for path in modules for name in imports_of(path)]
    assert [pair for pair in imports if not within(pair[1], pure)] == []
    assert violations(modules, {f"{compiler}.command"}) == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiler_has_no_process_and_no_wire(compiler: str) -> None:
    allowed = {"google.protobuf", "nnhal.v1.admin_pb2"}  # a file of ONNX is a message, and so is a chart's figure
    assert violations(modules_of(PACKAGES[compiler]), WIRE | PROCESSES, allowed) == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_device_does_without_the_command_of_its_compiler(compiler: str) -> None:
    assert violations(modules_of(PACKAGES["nnhal_devices"]), {f"{compiler}.command"}) == []


def test_the_service_depends_downwards_only() -> None:
    upwards = []
    for path in modules_of(PACKAGES["nnhal_service"]):
        module = dotted(path)
        own, part = layer_of(module), ".".join(module.split(".")[:2])
        for name in imports_of(path):
            if own is not None and belongs(name, "nnhal_service") and not belongs(name, part):
                used = layer_of(name)
                if used is not None and used <= own:
                    upwards.append(f"{module} imports {name}")
    assert upwards == []


def test_every_part_of_the_service_has_its_layer() -> None:
    folder = PACKAGES["nnhal_service"]
    parts = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert parts <= set().union(*SERVICE_LAYERS)


ROOMS = {
    PACKAGES["nnhal_service"] / "runtime": RUNTIME_ROOMS,
    PACKAGES["nnhal_service"] / "serving": SERVING_ROOMS,
    PACKAGES["nnhal_devices"] / "host": HOST_ROOMS,
}


@pytest.mark.parametrize("folder", ROOMS, ids=lambda folder: folder.name)
def test_rooms_use_only_those_below_them(folder: Path) -> None:
    rooms = ROOMS[folder]
    assert {path.name for path in folder.iterdir() if (path / "__init__.py").exists()} <= set(rooms)
    for number, room in enumerate(rooms):
        above = {f"{dotted(folder / '__init__.py')}.{other}" for other in rooms[:number]}
        module = (folder / room).with_suffix(".py")
        modules = [module] if module.exists() else modules_of(folder / room)
        assert modules
        assert violations(modules, above) == []


@pytest.mark.parametrize(
    "folder",
    [*ROOMS, *(folder / room for folder, rooms in ROOMS.items() for room in rooms if (folder / room).is_dir())],
    ids=lambda one: one.name,
)
def test_a_room_has_few_floors(folder: Path) -> None:
    assert floors(folder) <= MAX_FLOORS


@pytest.mark.parametrize("package", ["nnhal_hosting", "nnhal_devices"])
def test_neither_modules_nor_rooms_import_one_another_in_circles(package: str) -> None:
    rooms = [path.parent for path in modules_of(PACKAGES[package]) if path.name == "__init__.py"]
    assert all(map(floors, rooms))


def test_what_logs_does_not_import_what_writes_the_lines() -> None:
    own = {"nnhal_hosting.log_lines", "nnhal_devices.inventory"}  # the inventory collects the lines
    packages = [PACKAGES[name] for name in ("nnhal_hosting", "nnhal_devices", "nnhal_service", "nnhal_tools")]
    modules = [path for package in packages for path in modules_of(package) if dotted(path) not in own]
    assert violations(modules, {"structlog"}) == []


def test_front_ends_know_no_wire() -> None:
    allowed = {"google.protobuf"}  # a file of ONNX is a message
    assert violations(modules_of(PACKAGES["nnhal_frontends"]), WIRE | PROCESSES, allowed) == []


@pytest.mark.parametrize("driver", drivers(), ids=lambda folder: folder.name)
def test_a_driver_knows_neither_the_network_nor_its_host(driver: Path) -> None:
    forbidden = {"nnhal_devices.host"} if driver.name in AT_A_DISTANCE else NO_DRIVERS_BUSINESS
    assert violations(modules_of(driver), forbidden) == []


def test_the_interface_of_drivers_knows_neither_the_network_nor_the_host() -> None:
    assert violations([PACKAGES["nnhal_devices"] / "driver.py"], NO_DRIVERS_BUSINESS) == []


@pytest.mark.parametrize("part", ["types", "memory", "operations", "kernels", "support", "validation"])
def test_the_core_of_the_contract_knows_no_wire(part: str) -> None:
    assert violations(modules_of(PACKAGES["nnhal"] / part), WIRE) == []
