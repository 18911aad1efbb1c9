"""The walls between the layers: what each may import, read from the sources, and how light an import must be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pytest

import pbio_spark

ROOT = Path(__file__).parents[1]

LAYERS = (
    "ecode",
    "morph",
    "pbio_spark.errors",
    "pbio_spark.extras",
    "pbio_spark.keywords",
    "pbio_spark.buckets",
    "pbio_spark.disk",
    "pbio_spark.globs",
    "pbio_spark.paths",
    "pbio_spark.written",
    "pbio_spark.spaces",
    "pbio_spark.formats",
    "pbio_spark.wire",
    "pbio_spark.columns",
    "pbio_spark.bp5",
    "pbio_spark.channels",
    "pbio_spark.kafka",
    "pbio_spark.source",
    "pbio_spark.tables",
    "pbio_spark.gateways",
    "pbio_spark.functions",
    "pbio_spark.explore",
    "pbio_spark.testing",
    "pbio_spark.cli",
)
"""Each imports only itself and those before it (DESIGN section 3)."""

WITH_SPARK = ("pbio_spark.source", "pbio_spark.functions")
WITHOUT_COLUMNS = ("ecode", "morph")
HEAVY = {"confluent_kafka", "numba", "llvmlite", "pyarrow", "pyspark", "pandas", "rich", "typer", "lark"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {
    module_name(path): path
    for package in ("ecode", "morph", "pbio_spark")
    for path in sorted((ROOT / package).rglob("*.py"))
}


def imports(module: str) -> Iterator[str]:
    """Every module that a module imports anywhere in its text; names taken from a package count as its submodules."""
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def layer_of(module: str) -> int | None:
    """The number of a module's layer; None for what is not ours, and for `pbio_spark` itself, which is but a map."""
    return next((number for number, layer in enumerate(LAYERS) if is_in(module, layer)), None)


def test_every_module_has_a_layer() -> None:
    assert [module for module in SOURCES if layer_of(module) is None] == ["pbio_spark"]


def test_every_module_imports_only_its_own_layer_and_those_before() -> None:
    wrong = {
        (module, name)
        for module in SOURCES
        for name in imports(module)
        if (own := layer_of(module)) is not None and (layer_of(name) or 0) > own
    }
    assert wrong == set()


def test_third_parties_stay_in_their_rooms() -> None:
    wrong = set()
    for module in SOURCES:
        barred = set()
        if not any(is_in(module, room) for room in WITH_SPARK):
            barred.add("pyspark")
        if any(is_in(module, room) for room in WITHOUT_COLUMNS):
            barred.add("pyarrow")
        if not is_in(module, "pbio_spark.cli") and not is_in(module, "ecode.cli"):
            barred |= {"typer", "rich"}
        wrong |= {(module, name) for name in imports(module) if name.partition(".")[0] in barred}
    assert wrong == set()


CLOSED = ("pbio_spark.channels", "pbio_spark.columns")
"""Packages whose rooms only they themselves know: all others take names from the package."""


@pytest.mark.parametrize("package", CLOSED)
def test_others_reach_a_closed_package_through_its_public_names_only(package: str) -> None:
    public = set(import_module(package).__all__)
    wrong = {
        (module, name)
        for module in SOURCES
        if not is_in(module, package)
        for name in imports(module)
        if name.startswith(f"{package}.") and name.removeprefix(f"{package}.") not in public
    }
    assert wrong == set()


@pytest.mark.parametrize("package", CLOSED)
def test_every_public_name_of_a_closed_package_is_there_and_in_its_own_home(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == sorted(name for names in module._HOMES.values() for name in names)
    assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing
    name = max(module.__all__, key=len)
    with pytest.raises(AttributeError, match=f"; did you mean '{name}'[?]$"):
        getattr(module, name[:3] + name[4:])
    assert not hasattr(module, "__wrapped__")


@pytest.mark.parametrize(
    ("name", "meant"), [("read_arow", "read_arrow"), ("Formt", "Format"), ("parse_recrod", "parse_record")]
)
def test_a_misspelled_name_of_the_module_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean '{meant}'[?]$"):
        getattr(pbio_spark, name)


@pytest.mark.parametrize("room", ["ecode.types", "ecode.native"])
def test_record_types_and_kernels_know_nothing_of_the_language(room: str) -> None:
    """They live in `ecode` and could live elsewhere (docs/decisions/0013)."""
    modules = [module for module in SOURCES if is_in(module, room)]
    wrong = {(module, name) for module in modules for name in imports(module) if is_in(name, "ecode")}
    assert {(module, name) for module, name in wrong if not is_in(name, room)} == set()


MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS, MOST_FILES = 400, 60, 7, 12

STILL_TOO_LARGE: dict[str, set[str]] = {
    "files": set(),
    "functions": set(),
    "parameters": {
        "pbio_spark.channels.channel.submit",
        "pbio_spark.channels.channel.subscribe",
        "pbio_spark.channels.space.derive_channel",
        "pbio_spark.cli.convert.convert",
    },
    "folders": set(),
}
"""What is beyond a limit: public calls and one command, whose keywords are what users write. This list only shrinks."""


def functions(module: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{module}.{node.name}", node


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in given if name not in ("self", "cls")])


def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_files_functions_and_folders_stay_small() -> None:
    everything = [found for module in SOURCES for found in functions(module)]
    folders = [path.parent.relative_to(ROOT).as_posix() for path in SOURCES.values()]
    found = {
        "files": {m for m, path in SOURCES.items() if len(path.read_text("utf-8").splitlines()) > MOST_LINES},
        "functions": {name for name, node in everything if lines(node) > MOST_FUNCTION_LINES},
        "parameters": {name for name, node in everything if parameters(node) > MOST_PARAMETERS},
        "folders": {folder for folder in folders if folders.count(folder) > MOST_FILES},
    }
    assert {kind: names - STILL_TOO_LARGE[kind] for kind, names in found.items()} == {kind: set() for kind in found}


SAME_NAMES = {
    ("ecode.syntax.tree", "ecode.typed.statements"): "a statement as it is written and as it is typed",
    ("ecode.syntax.tree", "ecode.typed.expressions"): "an expression as it is written and as it is typed",
    ("pbio_spark.columns.decode.plan", "pbio_spark.columns.encode.plan"): "the two directions of one plan",
    ("ecode.typed.places", "pbio_spark.bp5.meta.variables"): "E-code and ADIOS2 both call it a variable",
    ("ecode.limits", "pbio_spark.testing.strategies"): "both are public, each in a room of its own",
    ("pbio_spark.channels.subscribe.delivered", "pbio_spark.gateways.grid.protocol.messages"): (
        "the classes of messages have the names of their XML elements"
    ),
}
"""Pairs of modules that may share names of classes, and why. All other names mean one class."""


def test_one_name_means_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in SOURCES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    shared = {(one, other): name for name, modules in homes.items() for one, other in combinations(modules, 2)}
    assert {pair: name for pair, name in shared.items() if pair not in SAME_NAMES} == {}
    assert set(SAME_NAMES) - set(shared) == set()


LISTS = ("tests/golden/wire", "tests/golden/bp5", "docs/decisions")
"""Lists of cases and of numbered decisions, not rooms: one finds an entry by its name or number, and a room more would
only make its path longer."""


def test_rooms_of_tests_benchmarks_and_pages_stay_small() -> None:
    files = [
        path
        for house in ("tests", "benchmarks", "docs")
        for path in sorted((ROOT / house).rglob("*.*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    folders = [path.parent.relative_to(ROOT).as_posix() for path in files]
    assert {folder for folder in folders if folders.count(folder) > MOST_FILES} - set(LISTS) == set()
    modules = [path for path in files if path.suffix == ".py"]
    assert [path for path in modules if len(path.read_text("utf-8").splitlines()) > MOST_LINES] == []


def loaded_by(module: str) -> set[str]:
    """The modules that are there after a fresh process imported one."""
    command = [sys.executable, "-c", f"import {module}, sys; print(*sys.modules)"]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    "module",
    ["ecode", "pbio_spark", "pbio_spark.channels", "pbio_spark.columns", "pbio_spark.formats", "pbio_spark.wire"],
)
def test_importing_is_light(module: str) -> None:
    assert HEAVY & loaded_by(module) == set()


@pytest.mark.parametrize("module", ["pyspark_pbio", "pyspark_bp5"])
def test_what_spark_imports_to_find_us_is_light(module: str) -> None:
    """Spark starts a process that does so for every load."""
    assert (HEAVY - {"pyspark"}) & loaded_by(module) == set()
