"""Files are opened for reading in one place, ``nnhal.given_files``: regular ones, of a bounded size, without waiting.

All other places are listed here, each with a reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import PACKAGES, dotted, modules_of

OPENERS = {"nnhal.given_files", "nnhal.given_arrays"}
KERNEL = "files of the kernel's, in /proc and /sys"
OWN_FOLDER = "a file that this process has made, in a folder of its own"
OWN_DATA = "data of this distribution, or of one that is installed"
IN_MEMORY = "bytes that are in memory"
LINKED = "a library of the system, or one that was looked at before"
EXCEPTIONS = {
    "nnhal.inference.native": {"_BOOT_ID.read_text": KERNEL},
    "nnhal.memory.ashmem": {"ctypes.CDLL": LINKED, "os.open": "a descriptor of this process's own, in /proc/self/fd"},
    "nnhal.memory.guard": {"ctypes.CDLL": LINKED},
    "nnhal.memory.mapping": {"ctypes.CDLL": LINKED},
    "nnhal.memory.mmap_fd": {"os.open": "a file that is created, and truncated if it is there"},
    "nnhal.private_folders": {"os.open": "a path that is looked at, and not read: O_PATH"},
    "nnhal.remote.watch": {"(thread / 'children').read_text": KERNEL, "(thread / 'schedstat').read_text": KERNEL},
    "nnhal_dashboard.pages.trying.pictures": {"Image.open": IN_MEMORY},
    "nnhal_dashboard.web.static": {"file.read_bytes": OWN_DATA, "known[name].read_bytes": OWN_DATA},
    "nnhal_devices.cpu_acc.blocked.block_size": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_devices.cpu_acc.profile": {"Path(session.runtime.end_profiling()).read_text": OWN_FOLDER},
    "nnhal_devices.cpu_acc.runs": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_devices.cpu_acc.byte_sums": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_devices.cpu_acc.session": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_devices.dynamic.loader": {"ctypes.CDLL": LINKED},
    "nnhal_devices.dynamic.trial": {"ctypes.CDLL": LINKED, "os.open": "/dev/null, for code that reads its input"},
    "nnhal_devices.gpu_acc.runtime": {"file.read_text": KERNEL, "onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_devices.host.memory.memory_watch": {"score.read_text": KERNEL},
    "nnhal_hosting.admin.oversight": {"path.read_text": KERNEL},
    "nnhal_hosting.extras": {"distribution('nnhal').read_text": OWN_DATA},
    "nnhal_hosting.memory_bounds": {
        "(self._proc / 'meminfo').read_text": KERNEL,
        "(self._proc / 'self/cgroup').read_text": KERNEL,
        "(group / 'memory.stat').read_text": KERNEL,
        "path.read_text": KERNEL,
    },
    "nnhal_hosting.own_memory": {"ctypes.CDLL": LINKED, "os.open": KERNEL},
    "nnhal_hosting.processor_time": {
        "(folder / 'schedstat').read_bytes": KERNEL,
        "(folder / 'stat').read_bytes": KERNEL,
    },
    "nnhal_hosting.socket_holders": {"(_PROC / str(pid) / 'status').read_bytes": KERNEL},
    "nnhal_hosting.threads": {"ctypes.CDLL": LINKED},
    "nnhal_mlip.command.onnx_nodes": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_mlip.command.samples": {"ZipFile": "an archive that is written"},
    "nnhal_native.ndk.library": {"_HEADER.read_text": OWN_DATA},
    "nnhal_pages.svg": {"folder.joinpath(*path).read_text": OWN_DATA},
    "nnhal_ray.nodes": {"path.read_bytes": KERNEL, "self._log.read_text": OWN_FOLDER},
    "nnhal_service.allocator": {"ctypes.CDLL": LINKED},
    "nnhal_service.operating.run_archive": {"os.open": OWN_FOLDER},
    "nnhal_service.front_workers.peer": {"open": "a memfd by its number"},
    "nnhal_service.observability.metrics.collector": {
        "(self._proc / 'meminfo').read_text": KERNEL,
        "(self._proc / 'stat').read_text": KERNEL,
    },
    "nnhal_service.runtime.plan.compilation_cache": {"os.open": "a file that devices read and write, looked at before"},
    "nnhal_service.v2.shared_memory.peers": {"table.read_text": KERNEL},
    "nnhal_service.v2.shared_memory.registry": {"os.open": "a file that is read and written in place"},
    "nnhal_tools.bench.hop": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_conformance.device": {"(process / 'maps').read_text": KERNEL},
    "nnhal_conformance.rules.caching": {"os.open": "odd files, which are only handed over"},
    "nnhal_conformance.rules.pools": {"os.open": "a descriptor of this process's own, in /proc/self/fd"},
    "nnhal_tools.cli.testbed": {"json.load": "an answer over HTTP"},
    "nnhal_tools.demo.digits": {
        "data(MODELS[kind]).read_bytes": OWN_DATA,
        "np.load": OWN_DATA,
        "onnxruntime.InferenceSession": IN_MEMORY,
    },
    "nnhal_tools.diff.onnxruntime_side": {"onnxruntime.InferenceSession": IN_MEMORY},
    "nnhal_tools.doctor.control_group": {
        "(folder / file).read_text": KERNEL,
        "(self.proc / 'self/cgroup').read_text": KERNEL,
    },
    "nnhal_tools.doctor.limits": {"path.read_text": KERNEL},
    "nnhal_tools.doctor.memory": {"(proc / 'meminfo').read_text": KERNEL},
    "nnhal_tools.drill.site": {"data(MODELS['float32']).read_bytes": OWN_DATA},
    "nnhal_tools.onnx_backend_report": {"onnx.load": OWN_DATA},
    "nnhal_tools.runtimes": {
        "Path(self._session.end_profiling()).read_text": OWN_FOLDER,
        "onnxruntime.InferenceSession": "a model that was looked at before, with the files beside it",
    },
}
READS = {"read_text", "read_bytes"}
WHOLE_LIBRARIES = {"tomllib.loads", "tomllib.load", "json.load", "np.load", "np.fromfile", "np.memmap", "np.loadtxt"}
PATHS_OF_LIBRARIES = {
    "onnx.load",
    "gzip.open",
    "zipfile.ZipFile",
    "ZipFile",
    "tarfile.open",
    "Image.open",
    "onnxruntime.InferenceSession",
    "ctypes.CDLL",
}
_MODE = re.compile(r"[rbt]+\+?")


def name_of(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def reads(call: ast.Call) -> bool:
    name, last = name_of(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in WHOLE_LIBRARIES | PATHS_OF_LIBRARIES or last in READS:
        return True
    if name == "os.open":
        return not any("O_WRONLY" in ast.unparse(argument) for argument in call.args)
    if name == "open" or last == "open":
        given = [*call.args[name == "open" :], *(each.value for each in call.keywords if each.arg == "mode")]
        modes = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        return any(_MODE.fullmatch(mode) for mode in modes) or (name == "open" and not modes)
    return False


def is_plain(called: str) -> bool:
    """Return whether what is read is named in the call: a file of the kernel's, or one of the package itself."""
    return bool(re.match(r"Path\(f?'/proc/|files\('nnhal", called))


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and reads(node) and not is_plain(ast.unparse(node.func)):
            yield ast.unparse(node.func)


def test_no_other_module_opens_files_for_reading() -> None:
    modules = [path for folder in PACKAGES.values() for path in modules_of(folder) if dotted(path) not in OPENERS]
    found = {(dotted(path), called) for path in modules for called in calls(path)}
    assert found == {(module, called) for module, reasons in EXCEPTIONS.items() for called in reasons}
