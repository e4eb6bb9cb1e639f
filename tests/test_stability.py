"""docs/names.txt lists the promised names, and all of them exist.

A new name may be added at any time: `pytest --accept tests/test_stability.py` adds what is not in
the list. Only this test removes nothing: a name that is gone breaks a promise.
"""

import re
from collections.abc import Iterator

import feedferry
from feedferry import access, beam, extend, testing
from feedferry.pipelines.job.file.job_keys import job_keys
from feedferry.transforms.access.index_fields import field_names
from support.pages import read_page
from support.reference import all_commands
from support.runs import AVRO_RUN, ROOT

LIST = ROOT / "docs" / "names.txt"
PUBLIC = (feedferry, access, beam, extend, testing)


def names() -> Iterator[str]:
    """Yield each promised name, after its kind."""
    for words, context in all_commands():
        yield f"command {words}"
        for parameter in context.command.get_params(context):
            for option in (*parameter.opts, *parameter.secondary_opts):
                if option.startswith("--"):
                    yield f"flag {words} {option}"
    yield from (f"key {key}" for key in job_keys())
    yield from (f"exit-code {code}" for code in rows("docs/exit-codes.md"))
    yield from (f"file {name}" for name in AVRO_RUN if "/" not in name)
    for line in (ROOT / "schemas" / "codes.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            yield "code " + " ".join(line.split("\t")[:2])
    report = read_page("docs/report.md")
    yield from (f"metric {name}" for name in re.findall(r"`(feedferry_last_\w+)`", report))
    yield from (f"index-field {name}" for name in field_names())
    for module in PUBLIC:
        yield from (f"python {module.__name__}.{name}" for name in module.__all__)


def rows(page: str) -> Iterator[str]:
    """Yield the numbers of the first column of a page."""
    for cell in re.findall(r"^\| ([\d, ]+) \|", read_page(page), re.MULTILINE):
        yield from cell.split(", ")


def test_no_promised_name_is_gone(accept: bool) -> None:
    existing = {*names()}
    if accept:
        kept = {*LIST.read_text("utf-8").splitlines()} if LIST.exists() else set()
        LIST.write_text("".join(f"{name}\n" for name in sorted(kept | existing)), "utf-8")
    promised = LIST.read_text("utf-8").splitlines()
    assert [name for name in promised if name not in existing] == []
    assert promised == sorted({*promised})
    assert len(promised) > 900


def test_each_kind_of_a_promised_name_is_in_the_list() -> None:
    kinds = {line.partition(" ")[0] for line in LIST.read_text("utf-8").splitlines()}
    expected = {"code", "command", "exit-code", "file", "flag", "index-field", "key", "metric"}
    assert kinds == expected | {"python"}
