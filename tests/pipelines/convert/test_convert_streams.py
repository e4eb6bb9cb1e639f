"""Command streams and groups by the command line, there and back, strictly and with repairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.archives import HOST, document, documents, gsa_feed, put
from support.runs import chunks, column, convert, report

BASE = "http://adaptor.example.com/doc/"
HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
LISTING = HEADER + b"id-list\na/b\nc d\n\nid=../x\nlast-modified=1300000000\nlock\n"
WILD = HEADER + b"id=a\nlast-modified=20110803 16:07:23\nid=b\nlock=false\nfoo=1\nfoo=2\n"
GROUPS = b"group,member,scope,namespace\neng,tim,user,corp\neng,ops,group,corp\nops,eve,user,corp\n"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def records(folder: str) -> list[Any]:
    return [json.loads(line) for line in b"".join(chunks(folder)).splitlines()]


def urls(folder: str) -> list[str]:
    return [record["url"] for record in records(folder)]


@pytest.fixture
def ids(here: Path) -> str:
    put(here / "ids.txt", LISTING)
    return "ids.txt"


@pytest.fixture
def wild(here: Path) -> str:
    put(here / "wild.txt", WILD)
    return "wild.txt"


@pytest.fixture
def feed(here: Path) -> str:
    put(here / "feed.xml", gsa_feed(*documents(1, 3)))
    return "feed.xml"


@pytest.fixture
def groups(here: Path) -> str:
    put(here / "groups.csv", GROUPS)
    return "groups.csv"


@pytest.mark.parametrize(
    "target",
    [
        ("--to", "gsa-feed", "--datasource", "web", "--feedtype", "metadata-and-url"),
        ("--to", "thunderstone"),
    ],
    ids=["gsa-feed", "thunderstone"],
)
def test_document_ids_without_a_base_url_are_sent_to_no_appliance(
    ids: str, target: tuple[str, ...]
) -> None:
    assert convert(ids, "--from", "lister-stream", *target, "-o", "out") == 1
    assert report("out")["account"]["reject_codes"] == {"url-not-absolute": 3}


def test_values_out_of_range_are_noted_and_lost_by_name(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = gsa_feed(document(1)).replace(b"<record ", b'<record pagerank="7" lock="TRUE" ', 1)
    put(here / "feed.xml", text)

    assert convert("feed.xml", "--to", "gsa-feed", "-o", "out") == 0
    account = report("out")["account"]
    assert {code: noted["count"] for code, noted in account["notices"].items()} == {
        "lock-value": 1,
        "pagerank-value": 1,
    }
    assert {field: loss["count"] for field, loss in account["losses"].items()} == {
        "lock": 1,
        "pagerank": 1,
    }
    assert b"pagerank" not in chunks("out")[0]
    assert "pagerank=7; expected an integer from 68 to 100" in capsys.readouterr().out


def test_a_listing_becomes_records_with_urls_of_the_adaptor(ids: str) -> None:
    words = ("--from", "lister-stream", "--strict", "--to", "native", "--base-url", BASE)
    code = convert(ids, *words, "-o", "out")

    assert code == 0
    assert urls("out") == [f"{BASE}a/b", f"{BASE}c%20d", f"{BASE}...../x"]


def test_a_template_makes_other_urls(ids: str) -> None:
    convert(ids, "--to", "native", "--url-template", "http://x.example.com/?id={id}", "-o", "out")

    assert urls("out")[0] == "http://x.example.com/?id=a%2Fb"


def test_ids_are_urls_by_default(ids: str) -> None:
    convert(ids, "--to", "native", "-o", "out")

    assert urls("out") == ["a/b", "c d", "../x"]


def test_a_strict_run_stops_where_the_deployed_parser_does(
    wild: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(wild, "--to", "native", "--strict", "-o", "out")

    assert (code, capsys.readouterr().err) == (
        4,
        "feedferry: wild.txt (byte 36): last-modified='20110803 16:07:23'; "
        "expected seconds since 1970\n",
    )


def test_repairs_are_counted_and_reported(wild: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = convert(wild, "--to", "native", "-o", "out")

    printed = [line for line in capsys.readouterr().out.splitlines() if "notice" in line]
    assert (code, printed) == (
        0,
        [
            "notice    date: 1, as wild.txt (byte 36): last-modified='20110803 16:07:23',"
            " not seconds since 1970; read as a date",
            "notice    flag: 1, as wild.txt (byte 73): lock='false', a flag with an argument;"
            " read as false",
            "notice    unknown-command foo: 2, as wild.txt (byte 84): 'foo', a command that nobody"
            " knows; kept",
        ],
    )


def test_an_unknown_command_is_logged_once(wild: str, caplog: pytest.LogCaptureFixture) -> None:
    convert(wild, "--to", "native", "-o", "out")

    assert [one for one in caplog.messages if "foo" in one] == [
        "wild.txt (byte 84): 'foo', a command that nobody knows; kept; 2 in all"
    ]


def test_notices_are_in_the_report(wild: str) -> None:
    convert(wild, "--to", "native", "-o", "out", "-q")

    noted = report("out")["account"]["notices"]
    assert {code: one["count"] for code, one in noted.items()} == {
        "date": 1,
        "flag": 1,
        "unknown-command foo": 2,
    }


def test_a_listing_cut_into_spans_gives_the_same_records(ids: str) -> None:
    convert(ids, "--to", "native", "-o", "whole")
    convert(ids, "--to", "native", "-o", "cut", "--span-bytes", "4")

    assert (len(chunks("cut")), urls("cut")) == (3, urls("whole"))


def test_a_feed_goes_to_streams_and_back(feed: str) -> None:
    convert(feed, "--to", "avro", "-o", "before")
    convert(feed, "--to", "retriever-stream", "-o", "streams")
    convert("streams/chunks", "--to", "gsa-feed", "--datasource", "intranet", "-o", "back")

    assert (len(chunks("streams")), chunks("back")) == (3, [gsa_feed_of("before")])


def gsa_feed_of(folder: str) -> bytes:
    convert(f"{folder}/chunks", "--to", "gsa-feed", "--datasource", "intranet", "-o", "again")
    return chunks("again")[0]


def test_streams_of_one_document_are_few_chunks_of_another_format(feed: str) -> None:
    convert(feed, "--to", "retriever-stream", "-o", "streams")
    convert("streams/chunks", "--to", "native", "-o", "out")

    source = "streams/chunks/000001.stream … streams/chunks/000003.stream"
    assert column("out", "source") == [source]


def test_a_content_stays_byte_for_byte(feed: str) -> None:
    convert(feed, "--to", "retriever-stream", "-o", "out", "--delimiter", r"\n")

    head = f"id={HOST}/1.txt\nmime-type=text/plain\ncontent\n"
    assert chunks("out")[0] == HEADER + head.encode() + b"plan 1"


def test_missing_documents_are_skipped_or_deleted(here: Path) -> None:
    put(here / "gone.stream", HEADER + b"id=http://a.example.com/\nnot-found\n")

    convert("gone.stream", "--to", "native", "-o", "skipped")
    convert("gone.stream", "--to", "native", "-o", "deleted", "--not-found", "delete")

    assert report("skipped")["account"]["filter_codes"] == {"not-found": 1}
    assert [record["action"] for record in records("deleted")] == ["DELETE"]


def test_unchanged_documents_are_skipped_and_counted(here: Path) -> None:
    put(here / "same.stream", HEADER + b"id=http://a.example.com/\nup-to-date\n")

    code = convert("same.stream", "--to", "native", "-o", "out")

    account = report("out")["account"]
    assert (code, account["read"], account["filter_codes"]) == (0, {"ADD": 1}, {"up-to-date": 1})


def test_a_repository_that_is_unavailable_fails_the_listing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "ids.txt", HEADER + b"id=a\nrepository-unavailable=db down\n")

    code = convert("ids.txt", "--to", "native", "-o", "out")

    message = "feedferry: ids.txt (byte 36): repository-unavailable: 'db down'\n"
    assert (code, capsys.readouterr().err) == (4, message)


def test_a_token_has_a_limit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(here / "ids.txt", HEADER + b"id=" + b"x" * 300_000)

    code = convert("ids.txt", "--to", "native", "-o", "out", "--max-token-bytes", "100KiB")

    assert (code, capsys.readouterr().err) == (
        4,
        "feedferry: ids.txt (byte 31): a token of more than 102400 bytes;"
        " expected the delimiter b'\\n' before; raise --max-token-bytes\n",
    )


def test_groups_go_from_csv_to_a_groups_feed(groups: str) -> None:
    words = ("--to", "gsa-groups", "--datasource", "ldap", "--feedtype", "full")
    code = convert(groups, *words, "-o", "out")

    assert code == 0
    assert chunks("out") == [
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
        b"<xmlgroups>\n"
        b"<membership>\n"
        b'<principal namespace="corp" scope="GROUP">eng</principal>\n'
        b"<members>\n"
        b'<principal namespace="corp" scope="USER">tim</principal>\n'
        b'<principal namespace="corp" scope="GROUP">ops</principal>\n'
        b"</members>\n"
        b"</membership>\n"
        b"<membership>\n"
        b'<principal namespace="corp" scope="GROUP">ops</principal>\n'
        b"<members>\n"
        b'<principal namespace="corp" scope="USER">eve</principal>\n'
        b"</members>\n"
        b"</membership>\n"
        b"</xmlgroups>\n"
    ]


def test_the_manifest_describes_a_groups_feed(groups: str) -> None:
    words = ("--to", "gsa-groups", "--datasource", "ldap", "--feedtype", "full")
    convert(groups, *words, "-o", "out")

    facts = [
        column("out", name)[0] for name in ("datasource", "feedtype", "members", "note", "records")
    ]
    assert facts == ["ldap", "full", 3, None, {"MEMBERSHIP": 2}]


def test_groups_without_a_source_are_incremental(groups: str) -> None:
    convert(groups, "--to", "gsa-groups", "-o", "out")

    assert (column("out", "datasource"), column("out", "feedtype")) == ([None], ["incremental"])


def test_groups_in_several_chunks_are_a_full_feed_and_incremental_ones(here: Path) -> None:
    rows = "".join(f"group{n},member{n},user\n" for n in range(1500))
    put(here / "many.csv", b"group,member,scope\n" + rows.encode())

    words = ("--feedtype", "full", "--max-chunk-bytes", "64KiB")
    convert("many.csv", "--to", "gsa-groups", *words, "-o", "out")

    note = (
        "incremental: adds to the groups of the full feed in the first chunk; push it after that"
        " chunk"
    )
    assert column("out", "feedtype") == ["full", "incremental", "incremental", "incremental"]
    assert column("out", "note") == [None, note, note, note]
    assert sum(column("out", "members")) == 1500


def test_groups_go_through_avro_and_native_and_come_back(groups: str) -> None:
    convert(groups, "--to", "gsa-groups", "-o", "first")
    convert("first/chunks", "--to", "avro", "-o", "avro")
    convert("avro/chunks", "--to", "native", "-o", "native")
    convert("native/chunks", "--to", "gsa-groups", "-o", "last")

    assert chunks("last") == chunks("first")


def test_groups_are_no_documents(groups: str) -> None:
    code = convert(groups, "--to", "gsa-feed", "--datasource", "d", "-o", "out")

    assert (code, report("out")["account"]["reject_codes"]) == (1, {"membership": 2})


def test_documents_are_no_groups(here: Path) -> None:
    put(here / "feed.xml", gsa_feed(document(1)))

    code = convert("feed.xml", "--to", "gsa-groups", "-o", "out")

    assert (code, report("out")["account"]["reject_codes"]) == (1, {"no-membership": 1})


def test_groups_and_documents_of_one_run_go_to_chunks_of_their_own(here: Path, groups: str) -> None:
    put(here / "feed.xml", gsa_feed(document(1)))

    convert("feed.xml", groups, "--to", "avro", "-o", "out")

    assert column("out", "records") == [{"ADD": 1}, {"MEMBERSHIP": 2}]
