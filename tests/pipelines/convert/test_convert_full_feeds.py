"""Full feeds that are empty, and full feeds from which documents are missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import BROKEN, DELETED, document, documents, gsa_feed, put
from support.runs import chunks, column, convert, manifest, report
from support.spools import HandSpool

Files = dict[str, bytes]
Args = tuple[str, ...]

EMPTY = gsa_feed(feedtype="full")
ONE = gsa_feed(*documents(1, 1))
NO_GROUPS = b"<xmlgroups></xmlgroups>"
GROUPS = (
    b'<xmlgroups><membership><principal scope="GROUP">staff</principal><members>'
    b'<principal scope="USER">ada</principal></members></membership></xmlgroups>'
)
NO_GROUP = b"<xmlgroups><membership><members/></membership></xmlgroups>"
UPDATE = '<record url="http://e.example.com/a" mimetype="text/html"></record>'
TO_GSA = ("-o", "out", "--to", "gsa-feed")
TO_GROUPS = ("-o", "out", "--to", "gsa-groups")
FULL = ("--feedtype", "full")
FULL_WIKI = (*FULL, "--datasource", "wiki")
FULL_LDAP = (*FULL, "--datasource", "ldap")
TREE = ("docs", "--from", "files", "--base-url", "https://docs.example.com/")
FULL_TREE = (*FULL, "--datasource", "docs")
ALLOWED = "--allow-empty-full"
LARGE = "a record of 7 MB"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def write(files: Files) -> None:
    for name, text in files.items():
        put(Path(name), text)


def torn(text: bytes) -> bytes:
    """A feed without its end."""
    return text[: text.index(b"</group>")]


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = convert(*args)
    return code, capsys.readouterr().err


def feeds() -> list[tuple[str, str]]:
    return list(zip(column("out", "datasource"), column("out", "feedtype"), strict=True))


# Empty full feeds


def test_an_empty_full_feed_stops_the_run_with_a_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(Path("a.xml"), EMPTY)
    put(Path("groups.xml"), NO_GROUPS)

    assert refusal(capsys, "a.xml", *TO_GSA) == (
        3,
        "feedferry: a.xml: a full feed of 'intranet' without a document to write; expected at least"
        " one, as an empty full feed deletes every document of its datasource; --allow-empty-full"
        " writes it\n",
    )
    assert refusal(capsys, "groups.xml", *TO_GROUPS, *FULL_LDAP) == (
        3,
        "feedferry: groups.xml: a full groups feed of 'ldap' without a group to write; expected at"
        " least one, as an empty full feed deletes every group of its groupsource;"
        " --allow-empty-full writes it\n",
    )
    assert not Path("out/chunks").exists()


@pytest.mark.parametrize(
    ("files", "args", "expected"),
    [
        ({"a.xml": EMPTY}, ("a.xml", *TO_GSA), [("intranet", "full")]),
        (
            {
                "in/1.xml": gsa_feed(*documents(1, 2), feedtype="full"),
                "in/2.xml": EMPTY,
                "in/3.xml": gsa_feed(*documents(3, 3)),
            },
            ("in", *TO_GSA),
            [("intranet", "full"), ("intranet", "full"), ("intranet", "incremental")],
        ),
        (
            {
                "a.xml": gsa_feed(*documents(1, 1), feedtype="full")
                + gsa_feed(datasource="wiki", feedtype="full")
            },
            ("a.xml", *TO_GSA),
            [("intranet", "full"), ("wiki", "full")],
        ),
        *(
            ({name: text}, (name, "--from", format_, *TO_GSA, *FULL_WIKI), [("wiki", "full")])
            for name, text, format_ in (
                *(("a.xml", gsa_feed(), "gsa-feed"), ("a.jsonl", b"\n", "jsonl")),
                ("a.xml", b"<ThunderstoneReplication></ThunderstoneReplication>", "thunderstone"),
            )
        ),
        (
            {"in/1.xml": ONE, "in/2.xml": gsa_feed(datasource="wiki")},
            ("in", *TO_GSA, *FULL),
            [("intranet", "full"), ("wiki", "full")],
        ),
        (
            {"docs/a.txt": b"keel"},
            (*TREE, *TO_GSA, *FULL_TREE, "--exclude", "*.txt"),
            [("docs", "full")],
        ),
        ({"docs/.hidden": b""}, (*TREE, *TO_GSA, *FULL_TREE), [("docs", "full")]),
        ({"g.xml": NO_GROUPS}, ("g.xml", *TO_GROUPS, *FULL_LDAP), [("ldap", "full")]),
        ({"g.csv": b"group,member,scope\n"}, ("g.csv", *TO_GROUPS, *FULL_LDAP), [("ldap", "full")]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_empty_full_feed_is_a_chunk_in_its_place_only_if_it_is_allowed(
    files: Files, args: Args, expected: list[tuple[str, str]]
) -> None:
    write(files)

    assert convert(*args) == 3
    assert convert(*args, ALLOWED) == 0
    assert feeds() == expected


@pytest.mark.parametrize(
    ("text", "args", "chunk"),
    [
        (
            EMPTY,
            TO_GSA,
            b'<?xml version="1.0" encoding="UTF-8"?>\n'
            b'<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
            b"<gsafeed>\n<header>\n<datasource>intranet</datasource>\n<feedtype>full</feedtype>\n"
            b"</header>\n<group>\n</group>\n</gsafeed>\n",
        ),
        (
            NO_GROUPS,
            (*TO_GROUPS, *FULL_LDAP),
            b'<?xml version="1.0" encoding="UTF-8"?>\n'
            b'<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
            b"<xmlgroups>\n</xmlgroups>\n",
        ),
    ],
)
def test_the_chunk_of_an_empty_full_feed_has_no_records(
    text: bytes, args: Args, chunk: bytes
) -> None:
    source = put(Path("a.xml"), text)

    assert convert(source, *args, ALLOWED) == 0
    (line,) = manifest("out")
    shown = (line["records"], line["source"], line["first_url"])
    assert (chunks("out"), shown) == ([chunk], ({}, "a.xml", ""))


@pytest.mark.parametrize(
    ("files", "args", "expected"),
    [
        ({"a.xml": b"<gsafeed/>"}, ("a.xml", *TO_GSA), []),
        ({"a.xml": gsa_feed()}, ("a.xml", *TO_GSA), []),
        ({"a.xml": EMPTY}, ("a.xml", *TO_GSA, "--feedtype", "incremental"), []),
        ({"in/1.xml": gsa_feed(), "in/2.xml": ONE}, ("in", *TO_GSA, *FULL), [("intranet", "full")]),
    ],
)
def test_an_empty_part_that_is_not_a_full_feed_has_no_chunk(
    files: Files, args: Args, expected: list[tuple[str, str]]
) -> None:
    write(files)

    assert convert(*args) == 0
    assert feeds() == expected


def test_a_full_feed_whose_last_span_has_only_rejects_is_not_empty() -> None:
    records = [*documents(1, 40, text="plan " * 50), *[BROKEN] * 40]
    source = put(Path("a.xml"), gsa_feed(*records, feedtype="full"))

    assert convert(source, *TO_GSA, "--span-bytes", "4KiB", "--accept-holes") == 1
    assert column("out", "feedtype")[0] == "full"
    assert set(column("out", "feedtype")[1:]) == {"incremental"}


def test_an_empty_full_feed_without_a_datasource_asks_for_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = put(Path("a.jsonl"), b"\n")

    code, err = refusal(capsys, source, "--from", "jsonl", *FULL, ALLOWED, *TO_GSA)
    assert (code, "expected --datasource NAME" in err) == (2, True)


@pytest.mark.parametrize("target", ["thunderstone", "avro", "lister-stream"])
def test_an_empty_full_feed_is_a_loss_for_a_target_without_full_feeds(target: str) -> None:
    source = put(Path("a.xml"), EMPTY)

    assert convert(source, "-o", "out", "--to", target) == 0
    loss = report("out")["account"]["losses"]["feedtype"]
    assert (loss["count"], loss["samples"][0]["url"]) == (1, "a.xml")
    assert chunks("out") == []


def test_an_empty_groups_feed_without_a_feedtype_is_a_notice() -> None:
    source = put(Path("groups.xml"), NO_GROUPS)

    assert convert(source, *TO_GROUPS) == 0
    assert report("out")["account"]["notices"]["empty-groups"]["first"]["detail"] == (
        "a groups feed of which no group was read; it adds nothing, and deletes nothing either"
        " unless --feedtype full makes it a full feed"
    )


def test_an_empty_full_feed_of_a_spool_stops_the_run() -> None:
    spool = HandSpool()
    spool.feed(gsa_feed(*documents(1, 2)), feedtype="full")
    spool.feed(EMPTY, feedtype="full")
    spool.groups(GROUPS, feedtype="full")
    spool.groups(NO_GROUPS, feedtype="full")

    for endpoint, target, expected in (
        ("xmlfeed", TO_GSA, ("spool#2", "full")),
        ("xmlgroups", ("-o", "groups", *TO_GROUPS[2:]), ("spool#4", "full")),
    ):
        assert convert("spool", "--only", endpoint, *target) == 3
        assert convert("spool", "--only", endpoint, *target, ALLOWED) == 0
        (line,) = manifest(target[1])
        assert (line["source"], line["feedtype"]) == expected


# Holes


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (gsa_feed(BROKEN, feedtype="full"), TO_GSA),
        (gsa_feed(document(1).replace("url=", "uri="), feedtype="full"), TO_GSA),
        (gsa_feed(UPDATE, feedtype="full"), TO_GSA),
        (NO_GROUP, (*TO_GROUPS, *FULL_LDAP)),
    ],
    ids=["malformed", "no-url", "no content for the target", "groups"],
)
def test_a_full_feed_whose_records_are_all_rejected_never_becomes_an_empty_one(
    text: bytes, args: Args
) -> None:
    source = put(Path("a.xml"), text)

    assert convert(source, *args, ALLOWED) == 3
    assert main(["rejects", "accept", "out", "-o", "known.txt"]) == 0
    assert convert(source, *args, ALLOWED, "--accepted-rejects", "known.txt") == 3
    assert convert(source, *args, ALLOWED, "--accept-holes") == 1
    assert chunks("out") == []


@pytest.mark.parametrize(
    ("record", "codes"),
    [
        (BROKEN, {"malformed": 1}),
        ("<p>\0\0\0", {"stray": 1}),
        (document(1).removesuffix("</record>"), {"torn-record": 1}),
        (UPDATE, {"partial-update": 1}),
        (document(1, text="x" * 3000), {"content-too-large": 1}),
        (LARGE, {"record-too-large": 1}),
        (BROKEN + UPDATE, {"malformed": 1, "partial-update": 1}),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_a_rejected_document_of_a_full_feed_stops_the_run_unless_it_is_accepted(
    record: str, codes: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    text = document(1, text="x" * 7_000_000) if record == LARGE else record
    source = put(Path("a.xml"), gsa_feed(text, *documents(4, 5), feedtype="full"))
    words = (source, *TO_GSA, "--max-content-bytes", "2000")
    count = "1 document or part" if sum(codes.values()) == 1 else "2 documents or parts"

    exit_code, message = refusal(capsys, *words)
    assert (exit_code, f"without {count} of the input, as a.xml:3 (byte " in message) == (3, True)
    assert not Path("out/chunks").exists()
    assert main(["rejects", "accept", "out", "-o", "known.txt"]) == 0
    assert convert(*words, "--accepted-rejects", "known.txt") == 0
    assert convert(*words, "--accept-holes", "--fresh") == 1
    assert report("out")["account"]["reject_codes"] == codes
    assert column("out", "feedtype") == ["full"]


def archived(
    number: int, datasource: str, feedtype: str = "full", action: str = "ADD", **fields: Any
) -> bytes:
    """A line of an archive."""
    return json.dumps(
        {
            "url": f"http://e.example.com/{number}",
            "action": action,
            "arrival": "PUSHED",
            "mimetype": "text/plain",
            "content": {"data": "cGxhbg=="},
            "provenance": {"datasource": datasource, "feedtype": feedtype, "source": "x.xml"},
            **fields,
        }
    ).encode()


UNWRITABLE: dict[str, Any] = {"crawl": {"display_url": "http://e.example.com/\1"}}
UNFIT: dict[str, Any] = {"content": None}


@pytest.mark.parametrize(
    ("bad", "feed"),
    [
        (archived(2, "wiki", **UNFIT), "wiki"),
        (archived(2, "wiki", **UNWRITABLE), "wiki"),
        (b"not JSON", "wiki"),
        (archived(2, "blog", **UNFIT), "blog"),
        (archived(2, "wiki", action="DELETE", url="no-url"), None),
        (archived(2, "wiki", "incremental", **UNFIT), None),
    ],
    ids=["adapted", "written", "read", "another feed", "a deletion", "not full"],
)
def test_a_reject_of_any_stage_is_a_hole_of_its_own_full_feed(
    bad: bytes, feed: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    source = put(Path("a.jsonl"), b"\n".join((archived(1, "wiki"), bad)))
    words = (source, "--from", "jsonl", "--to", "gsa-feed", ALLOWED)

    assert main(["plan", *words]) == (1 if feed is None else 3)
    code, message = refusal(capsys, *words, "-o", "out")
    assert (code, f"full feed of {feed!r} without 1 " in message) == (
        (1, False) if feed is None else (3, True)
    )


def test_rejects_of_another_input_do_not_stop_a_full_feed() -> None:
    put(Path("in/1.xml"), gsa_feed(BROKEN))
    put(Path("in/2.xml"), EMPTY)

    assert convert("in", *TO_GSA, ALLOWED) == 1
    assert column("out", "source") == ["in/2.xml"]


def test_a_full_feed_with_only_a_deletion_deletes_all_and_needs_both_flags() -> None:
    source = put(Path("a.xml"), gsa_feed(UPDATE, BROKEN, UPDATE, DELETED, feedtype="full"))

    assert convert(source, *TO_GSA) == 3
    assert convert(source, *TO_GSA, ALLOWED) == 3
    assert convert(source, *TO_GSA, "--accept-holes") == 3
    assert main(["rejects", "accept", "out", "-o", "known.txt"]) == 0
    assert convert(source, *TO_GSA, "--accepted-rejects", "known.txt") == 3
    assert convert(source, *TO_GSA, "--accept-holes", ALLOWED) == 1
    assert column("out", "records") == [{"DELETE": 1}]


def test_a_full_feed_without_its_end_stops_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("a.xml"), torn(gsa_feed(*documents(1, 2), feedtype="full")))

    assert refusal(capsys, source, *TO_GSA) == (
        3,
        "feedferry: a.xml: a full feed of 'intranet' without 1 document or part of the input, as"
        " a.xml:5 (byte 341): the end of the stream; expected </gsafeed>: more records may have"
        " followed; expected all, as it deletes what it leaves out; --accept-holes goes on without"
        " them, --feedtype incremental deletes nothing; feedferry rejects accept and"
        " --accepted-rejects go on without these only\n",
    )
    assert convert(source, *TO_GSA, "--accept-holes") == 1
    assert column("out", "feedtype") == ["full"]
    assert convert(source, "-o", "archive", "--to", "avro") == 3
    assert convert(source, "-o", "archive", "--to", "avro", "--accept-holes") == 1


# Other verbs


def test_inspect_shows_a_full_feed_without_records(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("a.xml"), EMPTY)

    assert main(["inspect", source]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "intranet/full             0",
        "total                     0",
        "empty      intranet/full: a full feed without records, which deletes all of its"
        " datasource",
    ]
    main(["inspect", source, "--format", "json"])
    counts: Any = json.loads(capsys.readouterr().out)
    assert counts["feeds"] == [{"datasource": "intranet", "feedtype": "full", "actions": {}}]


def test_plan_reports_an_empty_full_feed_that_would_stop_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("docs").mkdir()
    args = ["plan", *TREE, "--to", "gsa-feed", *FULL_TREE]

    assert main(args) == 3
    assert "--allow-empty-full writes it" in capsys.readouterr().err
    assert main([*args, ALLOWED]) == 0
