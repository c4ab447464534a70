"""messages.md: the services and messages of ``proto/nnhal/v1``, with their comments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

from tests.reference.markdown import code, table

ROOT = Path(__file__).parents[2]
_PROTO = ROOT / "proto"
_PACKAGE = ".nnhal.v1."
_PAGE = """# Messages of the wire

The services, messages and enumerations of `proto/nnhal/v1`, file by file. [protocol.md](protocol.md) says how a process
is reached, and the meaning of absent fields, fences and errors.

{files}

{sections}
"""
_MESSAGE, _FIELD, _NESTED, _ENUM_OF_MESSAGE, _ENUM, _SERVICE = 4, 2, 3, 4, 5, 6
_VALUE, _METHOD, _ONEOF = 2, 2, 8
"""Numbers of the fields of descriptor.proto, which paths of comments are made of."""
_SYNTAX = (12,)


def messages_page() -> str:
    """Return the page. Raises RuntimeError if protoc cannot read the files."""
    described = sorted((_Described(file) for file in _files()), key=lambda each: each.title)
    rows = [(f"[{each.title}](#{_anchor(each.title)})", each.summary) for each in described]
    return _PAGE.format(
        files=table(("file", "what it has"), rows), sections="\n\n".join(each.section() for each in described)
    )


def _files() -> list[FileDescriptorProto]:
    """Return what protoc makes of the files, comments included."""
    names = sorted(str(path.relative_to(_PROTO)) for path in (_PROTO / "nnhal/v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        google = str(files("grpc_tools") / "_proto")
        words = ["protoc", f"-I{_PROTO}", f"-I{google}", "--include_source_info", f"--descriptor_set_out={out}"]
        if protoc.main([*words, *names]):
            raise RuntimeError(f"protoc cannot read {', '.join(names)}")
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


class _Described:
    """A file with its comments."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments: dict[tuple[int, ...], str] = {}
        for location in file.source_code_info.location:
            text = location.leading_comments or location.trailing_comments
            if text:
                self._comments[tuple(location.path)] = _clean(text)
        self.title = Path(file.name).name
        self.head = self._comments.get(_SYNTAX, "")
        self.summary = re.split(r"(?<=\.)\s", self.head.partition("\n\n")[0])[0]

    def section(self) -> str:
        """Return the description of the file."""
        parts = [f"## {self.title}", self.head]
        for number, service in enumerate(self._file.service):
            path = (_SERVICE, number)
            rows = [
                (
                    code(method.name),
                    f"{_link(method.input_type)} → {'stream of ' if method.server_streaming else ''}"
                    f"{_link(method.output_type)}",
                    self._said(*path, _METHOD, index),
                )
                for index, method in enumerate(service.method)
            ]
            parts += [f"### {service.name}", self._said(*path), table(("method", "messages", "what it does"), rows)]
        for number, message in enumerate(self._file.message_type):
            parts += self._message(message, message.name, (_MESSAGE, number))
        for number, enum in enumerate(self._file.enum_type):
            parts += self._enum(enum, enum.name, (_ENUM, number))
        return "\n\n".join(part for part in parts if part)

    def _said(self, *path: int) -> str:
        return self._comments.get(path, "")

    def _message(self, message: DescriptorProto, name: str, path: tuple[int, ...]) -> Iterator[str]:
        if message.options.map_entry:
            return
        yield f"### {name}"
        yield self._said(*path)
        if message.field:
            yield table(("field", "number", "type", "what it is"), self._fields(message, path))
        for number, nested in enumerate(message.nested_type):
            yield from self._message(nested, f"{name}.{nested.name}", (*path, _NESTED, number))
        for number, enum in enumerate(message.enum_type):
            yield from self._enum(enum, f"{name}.{enum.name}", (*path, _ENUM_OF_MESSAGE, number))

    def _fields(self, message: DescriptorProto, path: tuple[int, ...]) -> Iterator[Sequence[str]]:
        for index, field in enumerate(message.field):
            said = self._said(*path, _FIELD, index)
            if field.HasField("oneof_index") and not field.proto3_optional:
                said = f"One of `{message.oneof_decl[field.oneof_index].name}`. {said}"
            yield code(field.name), str(field.number), _type(field, message), said

    def _enum(self, enum: EnumDescriptorProto, name: str, path: tuple[int, ...]) -> Iterator[str]:
        rows = [
            (code(value.name), str(value.number), self._said(*path, _VALUE, index))
            for index, value in enumerate(enum.value)
        ]
        yield from (f"### {name}", self._said(*path), table(("value", "number", "what it is"), rows))


def _type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        key, value = entry.field
        return f"map of {_type(key, entry)} to {_type(value, entry)}"
    name = _link(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def _link(type_name: str) -> str:
    name = type_name.removeprefix(_PACKAGE)
    if not name or not type_name.startswith(_PACKAGE):
        return name.removeprefix(".")
    return f"[{name}](#{_anchor(name)})"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _clean(comment: str) -> str:
    """Return a comment without the indentation of its lines; names in single quotes are code."""
    lines = [line.removeprefix(" ") for line in comment.strip("\n").splitlines() if "buf:lint:" not in line]
    return re.sub(r"(?<![\w'])'([A-Za-z_][\w.\-]*)'", r"`\1`", "\n".join(lines).strip())
