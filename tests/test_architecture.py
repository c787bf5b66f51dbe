"""The order of the packages: each imports only from those above it. And files and functions stay readable."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "termweave"
ORDER = (
    "errors",
    "storage",
    "accelerators",
    "progress",
    "config",
    "text",
    "alignment",
    "constraints",
    "data",
    "model",
    "decoding",
    "documents",
    "shards",
    "evaluation",
    "training",
    "experiments",
    "server",
    "cli",
)
FILES = sorted(SOURCE.rglob("*.py"))


def imported_parts(tree: ast.AST) -> set[str]:
    """First name below `termweave` of everything a module imports, also inside functions."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts |= {name.split(".")[1] for name in names if name.startswith("termweave.")}
    return parts


def test_no_two_modules_of_tests_have_the_same_name():
    """pytest imports them by their names alone; depending on which process gets which, that fails only sometimes."""
    names = [path.name for path in Path(__file__).parent.rglob("*.py") if path.name != "conftest.py"]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_every_package_has_its_place_in_the_order():
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert found - {"__init__", "__main__"} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_packages_import_only_downwards(path: Path):
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if here in ("__init__", "__main__"):
        return
    allowed = set(ORDER[: ORDER.index(here) + 1]) | {"__version__"}
    wrong = imported_parts(ast.parse(path.read_text(encoding="utf-8"))) - allowed
    assert not wrong, f"{path.name} imports {', '.join(sorted(wrong))}, which come after {here}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_files_and_functions_stay_readable(path: Path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 450, "split the file: it holds two things"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 70, f"{node.name} is too long: give its steps names"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_compiled_functions_do_not_sort_with_numba(path: Path):
    """In its cache, `sort` of one function and `argsort` of another may have one name, and the first one loaded wins.

    They are numbered as each process compiles them, so that functions compiled by different processes can clash: what
    `argsort` returns is then no order at all, and nothing says so.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(each) for each in node.decorator_list):
            called = [ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)]
            wrong = [name for name in called if name.split(".")[-1] in ("sort", "argsort", "sorted")]
            assert not wrong, f"{node.name} calls {wrong[0]}: sort in a loop of its own"
