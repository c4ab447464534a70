"""topology.md: the keys of the file that ``nnhal up`` reads."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from nnhal_tools.up import topology
from tests.reference.declared import strings_below
from tests.reference.markdown import code, plain, table

_PAGE = """# Topology

A topology is a TOML file with the devices of a testbed, in order of preference, and the options of its processes.
`nnhal up`, `nnhal run` and `nnhal explain` take one with `--topology FILE`. Paths are relative to the directory of the
command. A key that nnhal does not know is refused with its name.

```toml
{example}
```

## The file

{whole}

## `[[device]]`

{device}

`nnhal serve --help` and `nnhal dashboard --help` list the options of the other two tables
([commands](commands.md#nnhal-serve)). An option `--http-port` is the key `http_port`.
"""


def topology_page() -> str:
    """Return the page. Raises KeyError if a key is not described where it is declared."""
    docstring = inspect.getdoc(topology) or ""
    example = docstring.partition("\n\n")[2]
    version = ("`version`", "no", str(topology.VERSION), "Version of the file's form.")
    return _PAGE.format(
        example=example,
        whole=table(_HEAD, [version, *_rows(topology.Topology)]),
        device=table(_HEAD, _rows(topology.DeviceEntry)),
    )


_HEAD = ("key", "needed", "default", "what it is")


def _rows(model: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    said = strings_below(model)
    return [
        (code(name), "yes" if field.is_required() else "no", _default(field.default), plain(said[name]))
        for name, field in model.model_fields.items()
    ]


def _default(value: Any) -> str:
    if value is PydanticUndefined or value in (None, "", (), {}):
        return ""
    return str(value).lower() if isinstance(value, bool) else code(str(value))
