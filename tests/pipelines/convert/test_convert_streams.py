"""Command streams and groups by the command line, there and back, strictly and with repairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.archives import HOST, documents, gsa_feed, put
from support.runs import chunks, column, convert, report

BASE = "http://adaptor.example.com/doc/"
HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
LISTING = HEADER + b"id-list\na/b\nc d\n\nid=../x\nlast-modified=1300000000\nlock\n"
WILD = HEADER + b"id=a\nlast-modified=20110803 16:07:23\nid=b\nlock=false\nfoo=1\nfoo=2\n"
GROUPS = b"group,member,scope,namespace\neng,tim,user,corp\neng,ops,group,corp\nops,eve,user,corp\n"
FULL_LDAP = ("--to", "gsa-groups", "--datasource", "ldap", "--feedtype", "full")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def records(folder: str) -> list[Any]:
    return [json.loads(line) for line in b"".join(chunks(folder)).splitlines()]


def urls(folder: str) -> list[str]:
    return [record["url"] for record in records(folder)]


@pytest.fixture(autouse=True)
def inputs(here: Path) -> None:
    put(here / "ids.txt", LISTING)
    put(here / "wild.txt", WILD)
    put(here / "feed.xml", gsa_feed(*documents(1, 3)))
    put(here / "groups.csv", GROUPS)


@pytest.mark.parametrize(
    "target",
    [
        ("--to", "gsa-feed", "--datasource", "web", "--feedtype", "metadata-and-url"),
        ("--to", "thunderstone"),
    ],
    ids=["gsa-feed", "thunderstone"],
)
def test_document_ids_without_a_base_url_are_sent_to_no_appliance(target: tuple[str, ...]) -> None:
    assert convert("ids.txt", "--from", "lister-stream", *target, "-o", "out") == 1
    assert report("out")["account"]["reject_codes"] == {"url-not-absolute": 3}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            ("--from", "lister-stream", "--strict", "--base-url", BASE),
            [f"{BASE}a/b", f"{BASE}c%20d", f"{BASE}...../x"],
        ),
        (
            ("--url-template", "http://x.example.com/?id={id}"),
            [f"http://x.example.com/?id={name}" for name in ("a%2Fb", "c%20d", "..%2Fx")],
        ),
        ((), ["a/b", "c d", "../x"]),
    ],
    ids=["base-url", "url-template", "ids"],
)
def test_a_listing_becomes_records_with_urls_by_rule(
    flags: tuple[str, ...], expected: list[str]
) -> None:
    assert convert("ids.txt", *flags, "--to", "jsonl", "-o", "out") == 0
    assert urls("out") == expected


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        (
            "wild.txt",
            ("--strict",),
            "wild.txt (byte 36): last-modified='20110803 16:07:23'; expected seconds since 1970",
        ),
        ("gone.txt", (), "gone.txt (byte 36): repository-unavailable: 'db down'"),
        (
            "long.txt",
            ("--max-token-bytes", "100KiB"),
            "long.txt (byte 31): a token of more than 102400 bytes; expected the delimiter b'\\n'"
            " before; raise --max-token-bytes",
        ),
    ],
    ids=["strict", "unavailable", "token"],
)
def test_a_listing_that_cannot_be_read_stops_the_run(
    capsys: pytest.CaptureFixture[str], name: str, flags: tuple[str, ...], message: str
) -> None:
    put(Path("gone.txt"), HEADER + b"id=a\nrepository-unavailable=db down\n")
    put(Path("long.txt"), HEADER + b"id=" + b"x" * 300_000)

    code = convert(name, "--to", "jsonl", *flags, "-o", "out")
    assert (code, capsys.readouterr().err.splitlines()[0]) == (4, f"feedferry: {message}")


def test_repairs_are_notices_in_output_report_and_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code = convert("wild.txt", "--to", "jsonl", "-o", "out")

    printed = [line for line in capsys.readouterr().out.splitlines() if "notice" in line]
    assert (code, printed) == (
        0,
        [
            "notice    date: 1, as wild.txt (byte 36): last-modified='20110803 16:07:23',"
            " not seconds since 1970; read as a date",
            "notice    flag: 1, as wild.txt (byte 73): lock='false', a flag with an argument;"
            " read as false",
            "notice    unknown-command foo: 2, as wild.txt (byte 84): 'foo', an unknown command;"
            " kept",
        ],
    )
    assert [message for message in caplog.messages if "foo" in message] == [
        "wild.txt (byte 84): 'foo', an unknown command; kept; 2 in all"
    ]
    noted = report("out")["account"]["notices"]
    assert {code: notice["count"] for code, notice in noted.items()} == {
        "date": 1,
        "flag": 1,
        "unknown-command foo": 2,
    }


def test_a_listing_in_several_spans_gives_the_same_records() -> None:
    convert("ids.txt", "--to", "jsonl", "-o", "whole")
    convert("ids.txt", "--to", "jsonl", "-o", "cut", "--span-bytes", "4")

    assert (len(chunks("cut")), urls("cut")) == (3, urls("whole"))


def test_a_feed_goes_to_streams_of_one_document_and_back() -> None:
    to_feed = ("--to", "gsa-feed", "--datasource", "intranet")
    convert("feed.xml", *to_feed, "-o", "before")
    convert("feed.xml", "--to", "retriever-stream", "-o", "streams", "--delimiter", r"\n")
    convert("streams/chunks", *to_feed, "-o", "back")

    head = f"id={HOST}/1.txt\nmime-type=text/plain\ncontent\n"
    assert (len(chunks("streams")), chunks("streams")[0]) == (3, HEADER + head.encode() + b"plan 1")
    assert chunks("back") == chunks("before")
    source = "streams/chunks/000001.stream … streams/chunks/000003.stream"
    assert column("back", "source") == [source]


@pytest.mark.parametrize(
    ("command", "flags", "filtered", "actions"),
    [
        (b"not-found", (), {"not-found": 1}, []),
        (b"not-found", ("--not-found", "delete"), {}, ["DELETE"]),
        (b"up-to-date", (), {"up-to-date": 1}, []),
    ],
)
def test_missing_and_unchanged_documents_are_counted(
    command: bytes, flags: tuple[str, ...], filtered: dict[str, int], actions: list[str]
) -> None:
    put(Path("a.stream"), HEADER + b"id=http://a.example.com/\n" + command + b"\n")

    assert convert("a.stream", "--to", "jsonl", *flags, "-o", "out") == 0
    assert report("out")["account"]["filter_codes"] == filtered
    assert [record["action"] for record in records("out")] == actions


def test_groups_in_several_chunks_are_a_full_feed_and_incremental_ones() -> None:
    rows = "".join(f"group{n},member{n},user\n" for n in range(1500))
    put(Path("many.csv"), b"group,member,scope\n" + rows.encode())

    convert("many.csv", *FULL_LDAP, "--max-chunk-bytes", "64KiB", "-o", "out")

    note = (
        "incremental: adds to the groups of the full feed in the first chunk; push it after that"
        " chunk"
    )
    assert column("out", "feedtype") == ["full", "incremental", "incremental", "incremental"]
    assert column("out", "note") == [None, note, note, note]
    assert sum(column("out", "members")) == 1500


def test_groups_go_through_avro_and_native_and_come_back() -> None:
    convert("groups.csv", "--to", "gsa-groups", "-o", "first")
    convert("first/chunks", "--to", "avro", "-o", "avro")
    convert("avro/chunks", "--to", "jsonl", "-o", "jsonl")
    convert("jsonl/chunks", "--to", "gsa-groups", "-o", "last")

    assert chunks("last") == chunks("first")
    assert (column("last", "datasource"), column("last", "feedtype")) == ([None], ["incremental"])


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("groups.csv", "--to", "thunderstone"), {"groups-left-out": 2}),
        (("feed.xml", "--to", "gsa-groups"), {"documents-left-out": 3}),
    ],
)
def test_groups_are_no_documents_and_documents_are_no_groups(
    words: tuple[str, ...], codes: dict[str, int]
) -> None:
    assert convert(*words, "-o", "out") == 0
    account = report("out")["account"]
    assert (account["filter_codes"], account["rejected"]) == (codes, {})
    assert account["notices"].keys() == codes.keys()


@pytest.mark.parametrize("names", [("groups.csv", "feed.xml"), ("archive/chunks",)])
def test_a_feed_has_the_groups_after_the_documents(names: tuple[str, ...]) -> None:
    words = ("--datasource", "corp", "--to")
    convert("groups.csv", "feed.xml", *words, "avro", "-o", "archive")

    assert convert(*names, *words, "gsa-feed", "-o", "out", "--max-chunk-records", "2") == 0
    keys = ("format", "datasource", "feedtype", "records")
    assert [*zip(*(column("out", key) for key in keys), strict=True)] == [
        ("gsa-feed", "corp", "incremental", {"ADD": 2}),
        ("gsa-feed", "corp", "incremental", {"ADD": 1}),
        ("gsa-groups", "corp", "incremental", {"MEMBERSHIP": 2}),
    ]
    assert [path.name for path in sorted(Path("out/chunks").iterdir())] == [
        "000001.xml",
        "000002.xml",
        "000003.xml",
    ]
    convert("groups.csv", "--to", "gsa-groups", "-o", "groups")
    assert chunks("out")[2] == chunks("groups")[0]


def test_groups_and_documents_of_one_file_make_no_more_chunks_than_necessary() -> None:
    convert("feed.xml", "groups.csv", "--to", "jsonl", "-o", "lines", "--datasource", "corp")
    documents, groups = (chunk.decode().splitlines() for chunk in chunks("lines"))
    mixed = [*documents[:1], *groups[:1], *documents[1:], *groups[1:]]
    Path("mixed.jsonl").write_text("".join(f"{line}\n" for line in mixed))

    assert convert("mixed.jsonl", "--to", "gsa-feed", "-o", "out") == 0
    assert column("out", "records") == [{"ADD": 3}, {"MEMBERSHIP": 2}]


def test_a_full_feed_of_groups_next_to_documents_is_full() -> None:
    words = ("--datasource", "corp", "--feedtype", "full", "--to", "gsa-feed")
    assert convert("feed.xml", "groups.csv", *words, "-o", "out", "--max-chunk-records", "1") == 0
    assert column("out", "feedtype") == [
        *("full", "incremental", "incremental"),
        *("full", "incremental"),
    ]
    assert convert("groups.csv", *words, "-o", "none") == 3
    assert convert("groups.csv", *words, "-o", "empty", "--allow-empty-full") == 0
    assert column("empty", "records") == [{}, {"MEMBERSHIP": 2}]


def test_groups_without_a_groupsource_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("feed.xml", "groups.csv", "--to", "gsa-feed", "-o", "out") == 2
    assert capsys.readouterr().err.endswith(
        "groups.csv: groups without a groupsource; expected --datasource NAME, or --groups"
        " leave-out\n"
    )
    assert not Path("out/chunks").exists()


def test_a_setting_of_groups_is_for_feeds_only(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--groups", "leave-out", "--to", "avro")
    assert convert("feed.xml", "groups.csv", *words, "-o", "out") == 2
    assert capsys.readouterr().err == (
        "feedferry: --groups leave-out: not for --to avro; expected send\n"
    )


def test_groups_and_documents_of_one_run_go_to_chunks_of_their_own() -> None:
    convert("feed.xml", "groups.csv", "--to", "avro", "-o", "out")

    assert column("out", "records") == [{"ADD": 3}, {"MEMBERSHIP": 2}]


@pytest.mark.parametrize(
    ("target", "code", "written"),
    [
        (("gsa-feed", "--groups", "leave-out"), "groups-left-out", {"ADD": 3}),
        (("gsa-feed", "--dialect", "5.0"), "groups-left-out", {"ADD": 3}),
        (("thunderstone",), "groups-left-out", {"ADD": 3}),
        (("lister-stream",), "groups-left-out", {"ADD": 3}),
        (("gsa-groups", "--feedtype", "full"), "documents-left-out", {"MEMBERSHIP": 2}),
    ],
)
def test_an_archive_of_groups_and_documents_goes_to_a_target_of_either(
    target: tuple[str, ...], code: str, written: dict[str, int]
) -> None:
    convert("feed.xml", "groups.csv", "--to", "avro", "-o", "archive")

    assert convert("archive/chunks", "-o", "out", "--accept-loss", "content", "--to", *target) == 0
    account = report("out")["account"]
    (left_out,) = account["filter_codes"].items()
    assert (account["written"], left_out) == (written, (code, 5 - sum(written.values())))
    assert account["notices"][code]["count"] == left_out[1]
