"""The table of codes: complete, without codes that nothing raises, and shown in docs/codes.md."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from feedferry.pipelines.options.value_parsers import loss_fields
from feedferry.schemas.codes import KINDS, Code, all_codes, find_code
from feedferry.transforms.validate.rules import all_rules
from support.runs import ROOT

PAGE = ROOT / "docs" / "codes.md"
HEAD = """# Codes

What feedferry reports about records. `feedferry rejects show` and `report.html` have the cause and
the cure of a reject, and `feedferry validate` prints those of a notice. The pages of
[formats](formats/index.md) name the codes that each format has.
"""
TITLES = {
    "reject": (
        "Rejects",
        "Records that are set aside with their bytes, as in a dead letter queue; see "
        "[rejects](rejects.md).",
    ),
    "filtered": ("Filtered", "Records that are left out as intended; `filtered.jsonl` lists them."),
    "notice": ("Notices", "Something unusual that costs no record."),
    "loss": (
        "Losses",
        "Fields that a target cannot hold; see [losses](losses.md). `acl` stops a run, because its "
        "documents would become public, and so does `content`.",
    ),
}
DERIVED = {"not-a-record", "not-a-membership"}
NOT_CODES = {"code", "datasource", "keyword", "wb"}
_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAMES = re.compile("field|(.*_)?code(_of)?")


def _sources() -> list[str]:
    return [
        path.read_text("utf-8")
        for package in ("schemas", "transforms", "pipelines")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def page() -> str:
    lines = [HEAD]
    for kind in KINDS:
        title, text = TITLES[kind]
        lines += [f"## {title}\n", f"{text}\n"]
        if kind == "loss":
            continue
        alike: dict[str, list[str]] = {}
        for code in all_codes().values():
            if code.kind == kind:
                meaning = f"{code.meaning} {code.cure}" if _names_setting(code) else code.meaning
                alike.setdefault(meaning, []).append(f"`{code.name}`")
        lines += [f"- {', '.join(names)}: {meaning}" for meaning, names in alike.items()]
        lines.append("")
    names = ", ".join(f"`{code.name}`" for code in all_codes().values() if _needs_check(code))
    harmless = ", ".join(f"`{code.name}`" for code in all_codes().values() if _is_harmless(code))
    lines.append(f"Check the documents on the target after a loss of {names}.\n")
    return "\n".join([*lines, f"Nothing has to be done about a loss of {harmless}.", ""])


def _names_setting(code: Code) -> bool:
    """Whether the cure of a code that is no reject names a flag, a file or a code."""
    return code.kind != "reject" and "`" in code.cure


def _needs_check(code: Code) -> bool:
    return code.kind == "loss" and not _is_harmless(code)


def _is_harmless(code: Code) -> bool:
    """Whether a code is a loss that needs no cure."""
    return code.kind == "loss" and code.cure == "Nothing to do."


def parameters(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield name and position of each parameter or field of a definition that takes a code."""
    match node:
        case ast.FunctionDef():
            names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        case ast.ClassDef():
            fields = (field.target for field in node.body if isinstance(field, ast.AnnAssign))
            names = [field.id for field in fields if isinstance(field, ast.Name)]
            inits = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
            for init in inits:
                if init.name == "__init__":
                    names = [argument.arg for argument in init.args.args][1:]
        case _:
            return
    yield from ((node.name, at) for at, name in enumerate(names) if _NAMES.fullmatch(name))


def code_expressions(trees: list[ast.Module]) -> Iterator[ast.expr]:
    """Yield what is passed or assigned to something that is called code, or returned by it."""
    positions = defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            for name, position in parameters(node):
                positions[name].add(position)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
                chosen = [node.args[at] for at in positions[called] if at < len(node.args)]
                yield from chosen
                yield from (
                    word.value for word in node.keywords if _NAMES.fullmatch(word.arg or "")
                )
            if isinstance(node, ast.FunctionDef) and _NAMES.fullmatch(node.name):
                returns = [inner for inner in ast.walk(node) if isinstance(inner, ast.Return)]
                yield from (inner.value for inner in returns if inner.value)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    names, values = [target], [node.value]
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        names, values = target.elts, node.value.elts
                    pairs = zip(names, values, strict=True)
                    yield from (value for name, value in pairs if _is_code(name))


def _is_code(name: ast.expr) -> bool:
    return isinstance(name, ast.Name) and _NAMES.fullmatch(name.id) is not None


def raised_codes() -> set[str]:
    trees = [ast.parse(source) for source in _sources()]
    constants = defaultdict(set)
    for tree in trees:
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                for target in statement.targets:
                    constants[getattr(target, "id", "")].add(statement.value.value)
    words: set[object] = set()
    for expression in code_expressions(trees):
        for node in ast.walk(expression):
            match node:
                case ast.Constant():
                    words.add(node.value)
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    words |= constants[name]
    return {word for word in words if isinstance(word, str) and _CODE.fullmatch(word)}


@pytest.mark.slow
def test_a_code_that_is_raised_is_in_the_table() -> None:
    raised = raised_codes()
    assert {"malformed", "torn-end", "program-exit", "entity", "feedtype"} <= raised
    names = {name for _, name in all_codes()} | {*all_rules()}
    families = {"program", "lister", "transformer"}  # parts of a code that is made
    assert raised - names - families - {*KINDS} - NOT_CODES == set()


def test_a_code_of_the_table_is_in_the_source() -> None:
    strings = {text for source in _sources() for text in re.findall(r'"([a-z0-9-]+)"', source)}
    fields = {*loss_fields(), "feedtype"}
    derived = {name.replace("program", "transformer") for name in strings} | {
        f"{name}-value" for name in fields
    }
    assert {name for kind, name in all_codes() if kind == "loss"} == fields
    names = {name for kind, name in all_codes() if kind != "loss"}
    assert names - strings - derived - DERIVED == set()


def test_the_table_is_sorted_and_complete() -> None:
    codes = list(all_codes().values())
    assert codes == sorted(codes, key=lambda code: (KINDS.index(code.kind), code.name))
    assert [code.name for code in codes if not (code.meaning and code.cause and code.cure)] == []


def test_a_code_with_a_name_after_it_is_found() -> None:
    code = find_code("notice", "unknown-command colour")
    assert (code and code.name, find_code("reject", "newer")) == ("unknown-command", None)


def test_the_page_of_codes_matches_the_table(accept: bool) -> None:
    if accept:
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()
