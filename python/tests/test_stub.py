# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What type checkers are told about the extension is what it has."""

import ast
from pathlib import Path

import pytest

import emlio._core

STUB = ast.parse((Path(__file__).parents[1] / "emlio" / "_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
OWN_MEMBERS = {"__len__", "__getitem__", "__iter__", "__contains__", "__init__"}


def declared_names(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    annotated = (node.target for node in body if isinstance(node, ast.AnnAssign))
    return names | {target.id for target in annotated if isinstance(target, ast.Name)}


def test_the_stub_has_the_names_of_the_module() -> None:
    public = {name for name in vars(emlio._core) if not name.startswith("_")}
    assert declared_names(STUB.body) == public | {"__version__"}


@pytest.mark.parametrize("name", ["Batch", "BytesColumn", "Ragged", "Loader"])
def test_the_stub_has_the_members_of_each_class(name: str) -> None:
    made = vars(getattr(emlio._core, name))
    members = {member for member in made if not member.startswith("_") or member in OWN_MEMBERS}
    # nanobind gives every class an __init__, also those that only C++ makes.
    assert declared_names(CLASSES[name].body) | {"__init__"} == members | {"__init__"}


def test_the_stub_has_the_bases_of_each_error() -> None:
    for name, node in CLASSES.items():
        if name.endswith("Error") and name != "Error":
            bases = [ast.unparse(base).removeprefix("builtins.") for base in node.bases]
            assert [base.__name__ for base in getattr(emlio, name).__bases__] == bases


def test_the_package_exports_every_error() -> None:
    errors = {name for name in CLASSES if name.endswith("Error")}
    assert errors <= set(emlio.__all__)
    assert all(hasattr(emlio, name) for name in emlio.__all__)
