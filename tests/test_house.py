"""Rules of the code that a program can check."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastavro.schema import expand_schema
from msgspec import inspect

from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "transforms", "pipelines", "feedferry")
TOP = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "SECURITY.md",
    "docs",
    "examples",
    "feedferry",
    "pipelines",
    "pyproject.toml",
    "run_local.sh",
    "schemas",
    "tests",
    "transforms",
}
MACHINE = re.compile(
    r"(?<![\w.~/-])/(work|root|home)" + "/"  # split, so that this file does not match
    "|pypi[.]org|python" + "hosted"
)

MAX_FUNCTION_LINES = 60

KINDS = [
    "browser",
    "cluster",
    "database",
    "examples",
    "journey",
    "kill",
    "memory",
    "object storage",
    "pipeline",
    "property",
    "remote files",
    "server",
    "site",
    "worker processes",
]
"""Kinds of slow tests; `run_local.sh test` runs one of each."""

SCALARS = {
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
    inspect.IntType: "integer",
    inspect.FloatType: "double",
    inspect.BoolType: "boolean",
    inspect.DateTimeType: "timestamp",
}
AVRO_SCALARS = {"int": "integer", "long": "integer"}


def modules(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of the body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return (node.end_lineno or node.lineno) - body[0].lineno + 1


STREAM_BASES = {"RawIOBase", "FileIO", "BufferedIOBase", "IOBase"}


def stream_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in modules("transforms", "pipelines"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            bases = {ast.unparse(base).removeprefix("io.") for base in getattr(node, "bases", ())}
            if isinstance(node, ast.ClassDef) and bases & STREAM_BASES:
                yield f"{name_of(path)}:{node.name}", node


def test_every_stream_can_be_buffered() -> None:
    """Without `readinto`, a stream is read byte by byte under a buffer."""
    methods = {
        name: {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        for name, node in stream_classes()
    }
    assert methods
    assert [name for name, names in methods.items() if "readinto" not in names] == []


def kept_files() -> list[str]:
    """Return the files of the repository, including new files that are not ignored."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("git or a checkout is missing")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def avro(name: str) -> Any:  # JSON
    return json.loads((ROOT / "schemas" / f"{name}.avsc").read_text("utf-8"))


def shape_of_avro(kind: Any) -> object:
    """Return the shape of an Avro type, as `shape_of_struct` does."""
    match kind:
        case str():
            return AVRO_SCALARS.get(kind, kind)
        case ["null", other]:
            return ("or nothing", shape_of_avro(other))
        case {"type": "record", "fields": fields}:
            return [(field["name"], shape_of_avro(field["type"])) for field in fields]
        case {"type": "enum", "symbols": symbols}:
            return ("one of", *symbols)
        case {"type": "array", "items": one}:
            return ("many", shape_of_avro(one))
        case {"type": "long", "logicalType": "timestamp-micros"}:
            return "timestamp"
    raise AssertionError(f"{kind!r}: no such type in our schemas so far")


def shape_of_struct(kind: inspect.Type) -> object:
    """Return the shape of a type of `msgspec.inspect`."""
    match kind:
        case inspect.UnionType(types=types):
            (other,) = (item for item in types if not isinstance(item, inspect.NoneType))
            return ("or nothing", shape_of_struct(other))
        case inspect.StructType(fields=fields):
            return [(field.name, shape_of_struct(field.type)) for field in fields]
        case inspect.EnumType(cls=cls):
            return ("one of", *(member.value for member in cls))
        case inspect.VarTupleType(item_type=one):
            return ("many", shape_of_struct(one))
    return SCALARS[type(kind)]


def undocumented(kind: Any, place: str) -> Iterator[str]:
    """Yield the fields, at any depth, without a doc string."""
    match kind:
        case list():
            for item in kind:
                yield from undocumented(item, place)
        case {"fields": fields}:
            for field in fields:
                inner = f"{place}.{field['name']}"
                if not field.get("doc", "").strip():
                    yield inner
                yield from undocumented(field["type"], inner)
        case {"items": item}:
            yield from undocumented(item, place)


@pytest.mark.slow
def test_imports_run_downwards() -> None:
    lint = (
        "from importlinter.cli import lint_imports\n"
        "raise SystemExit(lint_imports(no_cache=True, no_logo=True))"
    )
    command = [sys.executable, "-c", lint]
    run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_importing_transforms_imports_no_module() -> None:
    assert (ROOT / "transforms" / "__init__.py").read_bytes() == b""


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in modules(*PACKAGES)}
    assert [name_of(item) for item in sorted(folders) if not (item / "__init__.py").exists()] == []


def test_no_function_has_more_than_60_lines() -> None:
    long = [
        f"{name_of(path)}:{node.lineno} {node.name} has {lines_of(node)} lines"
        for path in modules(*PACKAGES)
        for node in functions(path)
        if lines_of(node) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for path in modules(*PACKAGES):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name_of(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_module_is_private() -> None:
    private = [path for path in modules(*PACKAGES) if re.match("_[^_]", path.name)]
    assert [name_of(path) for path in private] == []


@pytest.mark.parametrize("word", ["from __future__ import annotations", "TYPE_CHECKING"])
def test_beam_can_resolve_annotations(word: str) -> None:
    using = [
        name_of(path)
        for path in modules("transforms", "pipelines")
        if word in path.read_text("utf-8")
    ]
    assert using == []


def test_only_stages_and_pipelines_mention_beam() -> None:
    importing = {
        name_of(path)
        for path in modules("schemas", "transforms")
        if "apache_beam" in path.read_text("utf-8")
    }
    stages = {name for name in importing if name.startswith("transforms/stages")}
    assert importing - stages == set()


@pytest.mark.parametrize(
    ("name", "struct"), [("record", Record), ("reject", Reject), ("membership", Membership)]
)
def test_a_struct_has_the_fields_of_its_avro_schema_in_their_order(
    name: str, struct: type[msgspec.Struct]
) -> None:
    assert shape_of_struct(inspect.type_info(struct)) == shape_of_avro(expand_schema(avro(name)))


@pytest.mark.parametrize("name", ["record", "reject", "membership"])
def test_every_field_of_a_schema_has_a_description(name: str) -> None:
    assert list(undocumented(avro(name), name)) == []


def test_the_top_level_is_fixed() -> None:
    tops = {Path(name).parts[0] for name in kept_files()}
    assert {top for top in tops if not top.startswith(".")} <= TOP


def test_no_file_contains_a_path_of_the_machine_it_was_written_on() -> None:
    matching = [name for name in kept_files() if MACHINE.search((ROOT / name).read_text("latin-1"))]
    assert matching == []


def test_each_kind_of_slow_test_has_one_that_is_marked() -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    kinds = re.findall(r'mark\.kind\("([a-z ]+)"\)', text)
    assert sorted(kinds) == KINDS


def test_every_shell_script_is_executable() -> None:
    missing = [name for name in ("run_local.sh", ".ci/run") if not shutil.which(ROOT / name)]
    assert missing == []
