"""A program that rewrites metadata, and others that only should."""

import os
from pathlib import Path
from typing import Any

import pytest

from schemas import avro
from schemas.errors import SourceError
from schemas.notice import Notice
from schemas.record import Action, Content, Meta, Record
from schemas.reject import Reject
from support.listings import listed, shell
from transforms.formats.base import ReadResult
from transforms.sources.programs.config import Programs
from transforms.sources.programs.transformer import transform

DOCUMENT = Record(
    url="a",
    action=Action.ADD,
    content=Content(b"text"),
    mimetype="text/plain",
    metadata=(Meta("kind", "wiki"), Meta("kind", "page"), Meta("", "")),
)


def transformer(trouble: str, **bounds: Any) -> Programs:  # the fields of Programs
    kept = {"retries": 0, "timeout_seconds": 30.0, **bounds}
    return Programs(lister=("list",), transformer=shell("transformer.sh", trouble), **kept)


def outcome(trouble: str, record: Record = DOCUMENT, **bounds: Any) -> ReadResult:
    (found,) = transform([record], transformer(trouble, **bounds))
    return found


def metadata(trouble: str, record: Record = DOCUMENT) -> tuple[Meta, ...]:
    found = outcome(trouble, record)
    assert isinstance(found, Record)
    return found.metadata


def trouble_of(trouble: str, record: Record = DOCUMENT, **bounds: Any) -> tuple[str, str]:
    found = outcome(trouble, record, **bounds)
    assert isinstance(found, Reject)
    return found.code, found.reason


def test_the_file_of_the_program_is_the_metadata() -> None:
    expected = (Meta("kind", "wiki"), Meta("kind", "page"), Meta("", ""), Meta("added", "yes"))
    assert metadata("add") == expected


def test_only_the_metadata_changes() -> None:
    found = outcome("clear")

    expected = Record(
        url="a", action=Action.ADD, content=Content(b"text"), mimetype="text/plain", metadata=()
    )
    assert found == expected


def test_the_parameters_name_the_document() -> None:
    expected = (Meta("docid", "a"), Meta("url", "a"), Meta("mimetype", "text/plain"))
    assert metadata("params") == expected


def test_an_unknown_mimetype_is_not_a_parameter() -> None:
    assert metadata("params", listed("a")) == (Meta("docid", "a"), Meta("url", "a"))


def test_the_program_may_replace_the_file() -> None:
    assert metadata("renamed") == (Meta("b", "2"), Meta("a", "1"))


def test_a_value_that_is_not_utf_8_is_kept_as_bytes() -> None:
    assert metadata("bytes") == (Meta("raw", "", b"\xff"),)


def test_a_value_of_bytes_is_passed_unchanged() -> None:
    record = Record(url="a", action=Action.ADD, metadata=(Meta("raw", "", b"\xfe"),))

    assert metadata("add", record) == (Meta("raw", "", b"\xfe"), Meta("added", "yes"))


def test_other_items_are_passed_on() -> None:
    gone = listed("gone", action=Action.DELETE)
    notice = Notice(code="bom", detail="a mark")

    found = list(transform([gone, notice], transformer("exit")))
    assert found == [gone, notice]


def test_without_a_transformer_all_items_are_passed_on() -> None:
    assert list(transform([DOCUMENT], Programs(lister=("list",)))) == [DOCUMENT]


def test_order_is_kept() -> None:
    found = transform([listed("a"), listed("b"), listed("c")], transformer("clear", parallel=3))

    assert [one.url for one in found if isinstance(one, Record)] == ["a", "b", "c"]


def test_a_reject_contains_the_whole_record() -> None:
    record = listed("a")
    assert outcome("exit", record) == Reject(
        code="transformer-exit",
        reason="exit code 3; expected 0; stderr ends 'no such name'",
        stage="transform",
        source="listing",
        span=2,
        offset=33,
        url="a",
        action="ADD",
        data=avro.encode(record),
    )


def test_a_timeout_rejects_the_document() -> None:
    assert trouble_of("hang", timeout_seconds=0.2) == (
        "transformer-timeout",
        "still running after 0.2 s; expected an end within that time (timeout); nothing on stderr",
    )


@pytest.mark.parametrize(
    ("trouble", "found"),
    [
        ("odd", "metadata that ends b'a\\x00'"),
        ("torn", "metadata that ends b'a\\x00b'"),
        ("name", "the name b'\\xff'"),
        ("gone", "No such file or directory in place of the metadata"),
    ],
)
def test_unreadable_metadata_is_a_reject(trouble: str, found: str) -> None:
    expected = f"{found}; expected name, NUL, value and NUL, in UTF-8"
    assert trouble_of(trouble) == ("transformer-output", expected)


def test_metadata_without_a_final_nul_is_a_reject() -> None:
    assert trouble_of("big", max_output_bytes=1000) == (
        "transformer-output",
        "more than 1000 bytes of metadata (max_output_bytes); "
        "expected name, NUL, value and NUL, in UTF-8",
    )


def test_metadata_with_nul_is_a_reject() -> None:
    record = Record(url="a", action=Action.ADD, metadata=(Meta("kind", "a\0b"),))

    expected = ("transformer-nul", "b'a\\x00b'; expected names, values and parameters without NUL")
    assert trouble_of("add", record) == expected


def test_a_missing_transformer_stops_the_run() -> None:
    programs = Programs(lister=("list",), transformer=("no-such-transformer",))

    with pytest.raises(SourceError, match="no-such-transformer: No such file or directory"):
        list(transform([DOCUMENT], programs))


@pytest.mark.parametrize("then", ["", "; exit 3"])
def test_no_file_is_left(tmp_path: Path, then: str) -> None:
    told = tmp_path / "told"
    script = f'printf "%s\\n" "$1" "$2" >"{told}"{then}'
    programs = Programs(lister=("list",), transformer=("/bin/sh", "-c", script, "sh"), retries=0)
    list(transform([DOCUMENT], programs))

    names = told.read_text().split()
    assert [len(names), *(Path(name).exists() for name in names)] == [2, False, False]


def left(script: str) -> tuple[str, str]:
    """What is said of a program that leaves something else than a file."""
    programs = Programs(lister=("list",), transformer=("/bin/sh", "-c", script, "sh"), retries=0)
    (found,) = transform([DOCUMENT], programs)
    assert isinstance(found, Reject)
    return found.code, found.reason


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('rm "$1"; mkfifo "$1"', "no file"),
        ('rm "$1"; ln -s /dev/zero "$1"', "Too many levels of symbolic links"),
        ('rm "$1"; ln -s "$2" "$1"', "Too many levels of symbolic links"),
        ('rm "$1"; mkdir "$1"', "Is a directory"),
    ],
)
def test_a_pipe_or_link_in_place_of_the_metadata_is_not_read(script: str, found: str) -> None:
    expected = f"{found} in place of the metadata; expected name, NUL, value and NUL, in UTF-8"
    assert left(script) == ("transformer-output", expected)


def test_a_folder_in_place_of_the_metadata_leaves_no_open_file() -> None:
    before = len(os.listdir("/proc/self/fd"))
    left('rm "$1"; mkdir "$1"')

    assert len(os.listdir("/proc/self/fd")) <= before  # what others left open may be closed now
