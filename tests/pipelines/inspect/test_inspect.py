"""The verb `inspect`: what it prints, where, and what the shell gets back."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.inspect.counts_text import as_text
from feedferry.pipelines.inspect.inspection import as_line, parse
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.value_parsers import NO_OUTPUT
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Content, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats.canonical import jsonl
from feedferry.transforms.inspect import (
    OTHERS,
    AclCounts,
    CodeCount,
    ContentSizes,
    DuplicateUrls,
    FeedCount,
    InputCounts,
)
from feedferry.transforms.rules.group_references import GroupCount, Groups
from support.archives import document, gsa_feed
from support.runs import ROOT
from support.spools import HandSpool

RECORD = Record(url="http://www.example.com/a", action=Action.ADD)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
PROTECTED = Record(
    url="http://www.example.com/b",
    action=Action.ADD,
    content=Content(b"abc"),
    mimetype="text/plain",
    acl=Acl(principals=(STAFF,)),
    provenance=Provenance(datasource="wiki", feedtype="full"),
)
YARD = Membership(group=Member(name="yard", scope=Scope.GROUP))
GROUPS_FEED = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">
<xmlgroups>
<membership>
<principal namespace="Default" scope="GROUP">MARRAM\\staff</principal>
<members><principal scope="USER" case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE">ada</principal>
</members>
</membership>
</xmlgroups>
"""


def keep(path: Path, *records: Record | Membership) -> str:
    path.write_bytes(b"".join(jsonl.line(record) for record in records))
    return path.name


def refusal(**words: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({"inputs": ("a.xml",), **words})
    return str(caught.value)


def test_the_flags_are_those_of_convert() -> None:
    words = {"inputs": ("a.txt", "-"), "from_format": "lister-stream", "strict": True}
    options = ConvertOptions(inputs=("a.txt", "-"), output=NO_OUTPUT, to_format="jsonl")
    assert parse(words) == replace(options, from_format="lister-stream", strict=True)
    assert refusal(inputs=()) == "INPUT: none given; expected files, folders, globs, URLs or -"
    assert refusal(from_format="avr").endswith("did you mean 'avro'?")
    assert refusal(from_format="adaptor") == (
        "--from adaptor: not for inspect, which starts no program; expected a format of files"
    )


def test_a_feed_is_a_row_and_an_action_a_column() -> None:
    intranet = {"DELETE_PATTERN": 1, "ADD": 1_200_000}
    feeds = (
        FeedCount(datasource="intranet_of_the_yard", feedtype="full", actions=intranet),
        FeedCount(datasource="wiki", feedtype=None, actions={"ADD": 2}),
        FeedCount(datasource=None, feedtype=None, actions={"MEMBERSHIP": 3}),
        FeedCount(datasource=OTHERS, feedtype=None, actions={"ADD": 4}),
    )
    counts = InputCounts(feeds=feeds)
    assert as_text(counts).splitlines() == [
        "                                    ADD  DELETE_PATTERN  MEMBERSHIP       total",
        "intranet_of_the_yard/full     1,200,000               1           0   1,200,001",
        "wiki/-                                2               0           0           2",
        "-                                     0               0           3           3",
        "(others)                              4               0           0           4",
        "total                         1,200,006               1           3   1,200,010",
    ]


def undefined(name: str, namespace: str = "Default", named: int = 1) -> GroupCount:
    return GroupCount(namespace=namespace, name=name, named=named)


UNDEFINED = tuple(undefined(f"g{number}") for number in range(22))
TWO_UNDEFINED = (undefined("MARRAM\\yard", named=1_000), undefined("a\nb", "ldap"))
BAD_DATES = CodeCount(count=1_000, first="a.xml:3 (byte 9): x; expected y", more=["b: z"])
TEN = "0 1, 1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1, 8 1, 9 1"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {
                "rejects": {"bad-date": BAD_DATES},
                "notices": {"crlf": CodeCount(count=2, first="a.txt (byte 7): CRLF; read as LF")},
                "filtered": {"not-found": 3, "up-to-date": 4},
            },
            [
                "reject     bad-date: 1,000, as a.xml:3 (byte 9): x; expected y",
                "reject     b: z",
                "notice     crlf: 2, as a.txt (byte 7): CRLF; read as LF",
                "filtered   not-found 3, up-to-date 4",
            ],
        ),
        (
            {"content": ContentSizes(documents=3, total=6_001, least=1, most=4_000)},
            ["content    3, 6,001 bytes as stored: 1 to 4,000, 2,000 on average"],
        ),
        (
            {"mimetypes": {"text/html": 1_000, "text/plain": 1}, "charsets": {"UTF-8": 2}},
            ["mimetype   text/html 1,000, text/plain 1", "charset    UTF-8 2"],
        ),
        ({"charsets": {str(name): 1 for name in range(11)}}, [f"charset    {TEN}, and 1 other"]),
        (
            {"charsets": {**{str(name): 1 for name in range(1000)}, OTHERS: 5}},
            [f"charset    {TEN}, and more than 991 others"],
        ),
        ({"charsets": {"\x1b[2J": 1}}, [r"charset    \x1b[2J 1"]),
        (
            {
                "acls": AclCounts(
                    documents=1_000,
                    without=2,
                    alone=3,
                    barred=4,
                    principals={"PERMIT GROUP": 5, "DENY USER": 6},
                    namespaces={"Default": 7},
                )
            },
            [
                "acl        1,000 with, 2 without, 3 alone; 4 permit no user",
                "principal  permit group 5, deny user 6",
                "namespace  Default 7",
            ],
        ),
        ({"acls": AclCounts(without=2)}, ["acl        none, 2 without"]),
        (
            {
                "groups": Groups(
                    memberships=3, defined=2, named=1_002, unnamed=1, undefined=TWO_UNDEFINED
                )
            },
            [
                "groups     2 defined, 1 of them named nowhere; 1,002 named, 2 of them defined"
                " nowhere",
                "undefined  'MARRAM\\yard' in Default: 1,000",
                r"undefined  'a\nb' in ldap: 1",
            ],
        ),
        (
            {"groups": Groups(memberships=1, undefined=UNDEFINED)},
            [
                "groups     0 defined, 0 of them named nowhere; 0 named, 22 of them defined"
                " nowhere",
                *(f"undefined  'g{number}' in Default: 1" for number in range(20)),
                "undefined  and 2 more, which --format json lists",
            ],
        ),
        (
            {"groups": Groups(named=1, undefined=UNDEFINED[:1])},
            ["groups     1 named; no groups feed among the inputs defines any"],
        ),
        (
            {"duplicates": DuplicateUrls(repeated=1_000, unremembered=2)},
            [
                "duplicate  1,000 of the added urls were added before",
                "duplicate  2 urls were not compared with later ones: too many",
            ],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_counts_have_lines_below_the_table(counts: dict[str, Any], expected: list[str]) -> None:
    text = as_text(InputCounts(**counts)).splitlines()
    total = next(number for number, line in enumerate(text) if line.startswith("total"))
    assert text[total + 1 :] == expected


def test_records_and_groups_of_several_files_are_counted_together(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [keep(here / "b.jsonl", RECORD, PROTECTED), keep(here / "a.jsonl", YARD)]
    code = main(["inspect", *names])
    assert (code, capsys.readouterr().out.splitlines()) == (
        1,
        [
            "                    ADD  MEMBERSHIP       total",
            "-                     1           1           2",
            "wiki/full             1           0           1",
            "total                 2           1           3",
            "content    1, 3 bytes as stored: 3 to 3, 3 on average",
            "mimetype   text/plain 1",
            "acl        1 with, 1 without, 0 alone; 0 permit no user",
            "principal  permit group 1",
            "namespace  Default 1",
            "groups     1 defined, 1 of them named nowhere; 1 named, 1 of them defined nowhere",
            "undefined  'staff' in Default: 1",
        ],
    )


def test_json_has_all_counts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["inspect", keep(here / "a.jsonl", PROTECTED), "--format", "json"])
    assert (code, json.loads(capsys.readouterr().out)) == (
        0,
        {
            "version": 1,
            "sources": ["a.jsonl"],
            "feeds": [{"datasource": "wiki", "feedtype": "full", "actions": {"ADD": 1}}],
            "rejects": {},
            "notices": {},
            "filtered": {},
            "defects": {},
            "content": {"documents": 1, "total": 3, "least": 3, "most": 3},
            "mimetypes": {"text/plain": 1},
            "charsets": {},
            "acls": {
                "documents": 1,
                "without": 0,
                "alone": 0,
                "barred": 0,
                "principals": {"PERMIT GROUP": 1},
                "namespaces": {"Default": 1},
            },
            "groups": {
                "memberships": 0,
                "defined": 0,
                "named": 1,
                "unnamed": 0,
                "undefined": [{"namespace": "Default", "name": "staff", "named": 1}],
            },
            "duplicates": {"repeated": 0, "unremembered": 0},
        },
    )


def test_a_reject_is_a_finding(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(here, "a.jsonl").write_text('{"url":"a"}\n', "utf-8")
    code = main(["inspect", "a.jsonl"])
    assert (code, capsys.readouterr().out.splitlines()[2]) == (
        1,
        "reject     bad-json: 1, as a.jsonl:1 (byte 0): Object missing required field `action`; "
        "expected a record in JSON",
    )


def test_groups_feeds_define_the_groups_of_documents(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(here, "groups.xml").write_text(GROUPS_FEED, "utf-8")
    code = main(["inspect", str(ROOT / "pipelines" / "sample"), "groups.xml"])
    printed = capsys.readouterr().out.splitlines()
    assert (code, printed[-6:]) == (
        1,
        [
            "groups     1 defined, 0 of them named nowhere; 6 named, 5 of them defined nowhere",
            "undefined  'eng' in Default: 10",
            "undefined  'yard' in Default: 4",
            "undefined  'MARRAM\\directors' in Default: 1",
            "undefined  'MARRAM\\visitors' in Default: 1",
            "undefined  'MARRAM\\yard' in Default: 1",
        ],
    )


def test_the_first_records_of_all_files_are_shown_in_native_form(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [keep(here / "b.jsonl", YARD), keep(here / "a.jsonl", PROTECTED, RECORD)]
    code = main(["inspect", *names, "--head", "2"])
    heads = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (code, [sorted(head)[0] for head in heads]) == (0, ["group", "acl"])
    assert sorted(path.name for path in here.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_a_head_reads_no_further_than_it_shows(here: Path) -> None:
    torn = gzip.compress(jsonl.line(RECORD) * 100_000)[:-1]
    Path(here, "a.jsonl.gz").write_bytes(torn)
    assert main(["inspect", "a.jsonl.gz", "--head", "1"]) == 0


def test_rejects_among_the_first_records_are_reported(
    here: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    Path(here, "a.jsonl").write_bytes(b'{"url":"a"}\n' + jsonl.line(RECORD))
    code = main(["inspect", "a.jsonl", "--head", "1"])
    assert (code, capsys.readouterr().out.count("\n"), caplog.messages) == (
        1,
        1,
        ["a.jsonl:1 (byte 0): Object missing required field `action`; expected a record in JSON"],
    )


def test_a_record_that_cannot_be_shown_is_a_reject() -> None:
    lone = Record(url="\udcff", action=Action.ADD, provenance=Provenance(source="a.avro", line=2))
    reject = as_line(lone)
    assert isinstance(reject, Reject)
    assert reject.message == "a.avro:2 (byte 0): a lone surrogate U+DCFF; expected Unicode text"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (
            ["gone.xml"],
            2,
            "feedferry: INPUT: 'gone.xml' is not there; expected a file, folder, glob, uri or -\n",
        ),
        (["a.jsonl", "--head", "0"], 2, "feedferry: --head: '0'; expected a number of records, "),
        (["a.jsonl", "--tail", "1"], 2, "feedferry: No such option"),
        (["note.txt"], 2, "feedferry: INPUT: 'note.txt' looks like plain text; expected one of "),
        (["torn.jsonl.gz"], 4, "feedferry: torn.jsonl.gz: "),
    ],
)
def test_inputs_that_cannot_be_read_are_reported(
    here: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, message: str
) -> None:
    keep(here / "a.jsonl", RECORD)
    Path(here, "note.txt").write_text("hello\n", "utf-8")
    Path(here, "torn.jsonl.gz").write_bytes(gzip.compress(jsonl.line(RECORD))[:5])
    given = main(["inspect", *args])
    printed = capsys.readouterr()
    assert (given, printed.out, printed.err[: len(message)]) == (code, "", message)


@pytest.mark.parametrize("words", [("spool",), ("spool", "--from", "spool")])
def test_all_feeds_of_a_spool_are_counted_by_their_posted_names(
    here: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    spool = HandSpool(here / "spool")
    spool.feed(gsa_feed(document(1)), "crm", "full")
    spool.feed(gsa_feed(document(2)), "crm", "full")

    main(["inspect", *words])

    assert capsys.readouterr().out.splitlines()[1] == "crm/full              2           2"
