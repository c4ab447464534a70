"""Turns protoc's output for proto/inference into modules of nnhal.inference with a descriptor pool of their own.

protoc derives a module's name from the path of its .proto, which here follows the protocol and not the Python package,
and it makes every module register its descriptors in protobuf's default pool; nnhal/inference/pool.py says why these
modules must not. Usage: private_pool.py FOLDER, where FOLDER holds the generated modules.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_DEFAULT_POOL = "_descriptor_pool.Default()"
_POOL_IMPORT = "from google.protobuf import descriptor_pool as _descriptor_pool\n"
_OWN_POOL_IMPORT = "from nnhal.inference.pool import POOL as _POOL\n"


def adapt(module: Path) -> None:
    """Rewrite one module in place. Raises ValueError if its content is unexpected."""
    text = re.sub(r"^from inference import ", "from nnhal.inference import ", module.read_text(), flags=re.MULTILINE)
    if module.suffix == ".py":
        if (text.count(_DEFAULT_POOL), text.count(_POOL_IMPORT)) != (1, 1):
            raise ValueError(f"{module} does not register one file in the default pool; has protoc changed?")
        text = text.replace(_POOL_IMPORT, _OWN_POOL_IMPORT).replace(_DEFAULT_POOL, "_POOL")
        text = re.sub(r"'inference\.(\w+_pb2)'", r"'nnhal.inference.\1'", text)
    module.write_text(text)


if __name__ == "__main__":
    modules = sorted(Path(sys.argv[1]).glob("*_pb2.py*"))
    if not modules:
        sys.exit(f"{sys.argv[1]} has no generated modules")
    for generated in modules:
        adapt(generated)
