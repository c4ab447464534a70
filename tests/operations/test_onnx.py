"""Nodes of ONNX become operations, which compute what ONNX Runtime does, or are refused in words."""

from __future__ import annotations

import re

import pytest

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.operations.onnx_forms import OnnxForm
from tests.operations.onnx_tables import FORMS
from tests.support.onnx_models import check, operations


@pytest.mark.parametrize("form", [form for form in FORMS if not form.words], ids=lambda form: form.op_type)
def test_a_node_becomes_operations(form: OnnxForm) -> None:
    model = form.model()
    imported = check(model, form.values(), form.near, form.shapes())
    first, *others = form.expected
    found = operations(imported)
    assert found == form.expected or (first == "?" and (not others or set(found) < set(others)))
    ranks = [len(output.type.tensor_type.shape.dim) for output in model.graph.output]
    assert [len(tensor.shape) for tensor in imported.outputs] == ranks


@pytest.mark.parametrize("form", [form for form in FORMS if form.words], ids=lambda form: form.op_type)
def test_a_node_is_refused_in_words(form: OnnxForm) -> None:
    with pytest.raises(UnsupportedNode, match=rf"node 'n' \({re.escape(form.op_type)}\).*{form.words}"):
        import_onnx(form.model(), extension=False)
