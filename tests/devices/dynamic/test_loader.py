from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.dynamic import BackendError, register_backends
from nnhal_devices.dynamic.loader import is_compatible
from nnhal_devices.registry import BackendRegistry
from tests.support.backends import (
    EXTENSION_ID,
    EXTENSION_VERSION,
    build_extension,
    example,
    warnings_logged,
    write_backend,
)
from tests.support.c_backends import EXAMPLE, compiled

OPTIONS = DriverOptions(threads=3)
API = "from nnhal_devices.driver import BACKEND_API_VERSION as API_VERSION\n"


@pytest.fixture
def registry() -> BackendRegistry:
    """One that knows cpu_ref alone."""
    made = BackendRegistry()
    made.register("cpu_ref", CpuRef)
    return made


def test_a_source_file_is_registered_under_its_id(tmp_path: Path, registry: BackendRegistry) -> None:
    (tmp_path / "Acme_Adder_backend.py").write_text(example())
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert warned == []
    assert registry.names() == ["Adder", "cpu_ref"]
    assert registry.create("Adder", OPTIONS).version == "acme-adder-1.0"


def test_an_extension_module_is_registered_under_its_id(tmp_path: Path, registry: BackendRegistry) -> None:
    real = build_extension(tmp_path / "Acme_Native_backend.so.1.2")
    (tmp_path / "Acme_Native_backend.so").symlink_to(real)
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert warned == []
    assert registry.names() == [EXTENSION_ID, "cpu_ref"]
    assert registry.create(EXTENSION_ID, OPTIONS).version == EXTENSION_VERSION


def test_a_factory_is_called_with_the_options_and_only_when_a_driver_is_asked_for(
    tmp_path: Path, registry: BackendRegistry
) -> None:
    write_backend(
        tmp_path / "A_a_backend.py", "a", factory="lambda options: 1 / 0 if options.threads == 3 else CpuRef()"
    )
    register_backends([tmp_path], registry)
    assert isinstance(registry.create("a", DriverOptions()), CpuRef)
    with pytest.raises(
        BackendError, match=r"A_a_backend.py: create_backend raised ZeroDivisionError: division by zero"
    ):
        registry.create("a", OPTIONS)


def test_what_is_no_driver_is_refused(tmp_path: Path, registry: BackendRegistry) -> None:
    write_backend(tmp_path / "A_a_backend.py", "a", factory="lambda options: 'driver'")
    register_backends([tmp_path], registry)
    with pytest.raises(BackendError, match=r"a str, which is no driver: it has no backend, .*, prepare, .*version"):
        registry.create("a", OPTIONS)


def test_files_that_differ_in_their_version_only_are_different_modules(
    tmp_path: Path, registry: BackendRegistry
) -> None:
    for number in (1, 2):
        write_backend(tmp_path / f"A_a_backend.py.{number}", f"a{number}")
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert warned == []
    assert registry.names() == ["a1", "a2", "cpu_ref"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A_a_backend.py.1", "A_a_backend.py.2"]


def test_a_module_can_be_found_by_its_name_while_it_runs(tmp_path: Path, registry: BackendRegistry) -> None:
    # Data classes look their module up to understand annotations that are strings.
    (tmp_path / "A_a_backend.py").write_text(
        example() + "\n\n@__import__('dataclasses').dataclass\nclass D:\n    x: int\n"
    )
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert warned == []


def test_of_several_with_one_id_the_first_is_registered(tmp_path: Path, registry: BackendRegistry) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_backend(first / "A_a_backend.py", "a")
    write_backend(second / "A_a_backend.py", "a", factory="None.__class__")
    write_backend(second / "A_b_backend.py", "cpu_ref", factory="None.__class__")
    with warnings_logged() as warned:
        register_backends([first, second], registry)
    assert warned == [
        ("A_a_backend.py", "a driver is already called 'a'"),
        ("A_b_backend.py", "a driver is already called 'cpu_ref'"),
    ]
    assert isinstance(registry.create("a", OPTIONS), CpuRef)
    assert isinstance(registry.create("cpu_ref", OPTIONS), CpuRef)


@pytest.mark.parametrize(
    ("made_for", "here", "fits"),
    [
        ((2, 4), (2, 4), True),
        ((2, 1), (2, 4), True),
        ((2, 5), (2, 4), False),
        ((2, 0), (1, 0), False),
        ((2, 0), (3, 0), False),
        ((1, 9), (2, 4), False),
    ],
)
def test_a_version_fits_where_the_major_is_the_same_and_the_minor_not_newer(
    made_for: tuple[int, int], here: tuple[int, int], fits: bool
) -> None:
    assert is_compatible(made_for, here) is fits


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "it has no BACKEND_ID, API_VERSION, create_backend"),
        (f"{API}create_backend = print", "it has no BACKEND_ID"),
        ("BACKEND_ID = 'a'\ncreate_backend = print", "it has no API_VERSION"),
        (f"{API}BACKEND_ID = 'a'", "it has no create_backend"),
        (f"{API}BACKEND_ID = ''\ncreate_backend = print", "BACKEND_ID is ''"),
        (f"{API}BACKEND_ID = b'a'\ncreate_backend = print", "BACKEND_ID is b'a'"),
        (f"{API}BACKEND_ID = 'a/b'\ncreate_backend = print", "BACKEND_ID is 'a/b', expected letters, digits"),
        (f"{API}BACKEND_ID = 'a'\ncreate_backend = 1", "create_backend is 1"),
        ("BACKEND_ID = 'a'\ncreate_backend = print\nAPI_VERSION = 1", "API_VERSION is 1"),
        ("BACKEND_ID = 'a'\ncreate_backend = print\nAPI_VERSION = '1.0'", "API_VERSION is '1.0'"),
        ("BACKEND_ID = 'a'\ncreate_backend = print\nAPI_VERSION = (1,)", "API_VERSION is (1,)"),
        ("BACKEND_ID = 'a'\ncreate_backend = print\nAPI_VERSION = (1, -1)", "API_VERSION is (1, -1)"),
        ("BACKEND_ID = 'a'\ncreate_backend = print\nAPI_VERSION = (1, 9999)", "made for backend API (1, 9999)"),
        ("BACKEND_ID = 'a'\ncreate_backend = print\nAPI_VERSION = (0, 0)", "made for backend API (0, 0)"),
        ("raise RuntimeError('no chip')", "RuntimeError: no chip"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("from . import sibling", "ModuleNotFoundError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("class Odd(BaseException): pass\nraise Odd", "Odd"),
        ("def", "SyntaxError: invalid syntax"),
        ("\0", "null bytes"),
        ("def __getattr__(name): raise ValueError(name)", "ValueError: BACKEND_ID"),
    ],
)
def test_a_source_file_of_no_use_is_a_warning_and_the_next_is_loaded(
    tmp_path: Path, registry: BackendRegistry, source: str, reason: str
) -> None:
    (tmp_path / "A_a_backend.py").write_text(source)
    write_backend(tmp_path / "A_b_backend.py", "b")
    known = set(sys.modules)
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert [warning.name for warning in warned] == ["A_a_backend.py"]
    assert reason in warned[0].reason
    assert registry.names() == ["b", "cpu_ref"]
    assert not [name for name in sys.modules.keys() - known if name.endswith("A_a_backend")]


@pytest.mark.parametrize("content", [b"", b"BACKEND_ID = 'a'\n" * 100, b"\x7fELF" + bytes(1000)])
def test_an_extension_that_is_none_is_a_warning(tmp_path: Path, registry: BackendRegistry, content: bytes) -> None:
    file = tmp_path / "A_a_backend.so"
    file.write_bytes(content)
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert [warning.name for warning in warned] == [file.name]
    assert warned[0].reason.startswith("ImportError: ")
    assert registry.names() == ["cpu_ref"]


def test_an_extension_cut_short_or_misnamed_is_a_warning(tmp_path: Path, registry: BackendRegistry) -> None:
    whole = build_extension(tmp_path / "built").read_bytes()
    (tmp_path / "Acme_Native_backend.so").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "Acme_Other_backend.so").write_bytes(whole)
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert [warning.name for warning in warned] == ["Acme_Native_backend.so", "Acme_Other_backend.so"]
    assert "cut short" in warned[0].reason
    assert warned[1].reason.startswith("it has no GetBackendId, GetVersion, BackendFactory of a backend in C, and no")
    assert "PyInit_Acme_Other_backend" in warned[1].reason
    assert registry.names() == ["cpu_ref"]


ABORTS = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { abort(); }\n"
CALLS = "void elsewhere(void);\nconst char *GetBackendId(void) { elsewhere(); return 0; }\n"


def shared_object(path: Path, source: str, *flags: str) -> Path:
    code = path.with_name(f"{path.stem.removesuffix('_backend')}.c")
    code.write_text(source)
    return compiled(code, path, "-shared", "-fPIC", *flags)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os; os._exit(3)", "it ended its process with exit status 3"),
        ("import os; os._exit(0)", "it ended its process with exit status 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "it ended its process by SIGILL"),
        ("import threading; threading.Event().wait()", "it had not ended after 0.5 s"),
        ("while True: pass", "it had not ended after 0.5 s"),
        ("import os; raise RuntimeError(os.read(0, 9))", "RuntimeError: b''"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_file_that_ends_or_holds_up_its_process_is_a_warning(
    tmp_path: Path, registry: BackendRegistry, source: str, reason: str
) -> None:
    (tmp_path / "A_a_backend.py").write_text(source)
    write_backend(tmp_path / "A_b_backend.py", "b")
    seconds = 0.5 if "0.5" in reason else 30
    with warnings_logged() as warned:
        register_backends([tmp_path], registry, seconds=seconds)
    assert {warning.name: warning.reason for warning in warned}["A_a_backend.py"].startswith(reason)
    if seconds == 30:
        assert registry.names() == ["b", "cpu_ref"]


def test_shared_objects_that_cannot_be_loaded_are_warnings(tmp_path: Path, registry: BackendRegistry) -> None:
    shared_object(tmp_path / "A_aborts_backend.so", ABORTS)
    shared_object(tmp_path / "A_calls_backend.so", CALLS)
    needed = shared_object(tmp_path / "libelsewhere.so", "void elsewhere(void) {}")
    shared_object(tmp_path / "A_needs_backend.so", CALLS, "-Wl,--no-as-needed", f"-L{tmp_path}", "-lelsewhere")
    needed.unlink()
    (tmp_path / "A_folder_backend.so").mkdir()
    with warnings_logged() as warned:
        register_backends([tmp_path], registry)
    assert [(name, reason.replace(str(tmp_path), "")) for name, reason in sorted(warned)] == [
        ("A_aborts_backend.so", "it ended its process by SIGABRT"),
        ("A_calls_backend.so", "ImportError: /A_calls_backend.so: undefined symbol: elsewhere"),
        ("A_folder_backend.so", "no regular file"),
        (
            "A_needs_backend.so",
            "ImportError: libelsewhere.so: cannot open shared object file: No such file or directory",
        ),
    ]
    assert registry.names() == ["cpu_ref"]


def test_only_what_a_process_may_serve_is_looked_at_and_loaded(tmp_path: Path, registry: BackendRegistry) -> None:
    (tmp_path / "A_a_backend.py").write_text("import os; os._exit(3)")
    write_backend(tmp_path / "A_b_backend.py", "b")
    write_backend(tmp_path / "A_c_backend.py", "other")
    for wanted, told, names in (
        ("cpu_ref", [], ["cpu_ref"]),
        ("b", [], ["b", "cpu_ref"]),
        ("other", ["A_a_backend.py"], ["b", "cpu_ref", "other"]),
    ):
        found, known = BackendRegistry(), set(sys.modules)
        found.register("cpu_ref", CpuRef)
        with warnings_logged() as warned:
            register_backends([tmp_path], found, wanted)
        assert ([warning.name for warning in warned], found.names()) == (told, names)
        assert not [name for name in sys.modules.keys() - known if name.endswith("_backend")]
        assert isinstance(found.create(wanted, OPTIONS), CpuRef)


def test_a_shared_object_whose_factory_ends_the_process_is_named(tmp_path: Path, registry: BackendRegistry) -> None:
    source = EXAMPLE.read_text().replace("*BackendFactory(void) {", "*BackendFactory(void) {\n    __builtin_trap();")
    file = shared_object(tmp_path / "Acme_Simple_backend.so", source)
    register_backends([tmp_path], registry)
    with pytest.raises(BackendError, match=rf"^{file} makes no driver: it ended its process by SIG(ILL|TRAP)$"):
        registry.create("Simple", OPTIONS)
