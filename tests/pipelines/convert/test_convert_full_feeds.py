"""Full feeds that are empty, and full feeds from which documents are missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import main
from support.archives import BROKEN, document, documents, gsa_feed, put
from support.runs import chunks, column, convert, manifest, report
from support.spools import HandSpool

EMPTY = gsa_feed(feedtype="full")
NO_GROUPS = b"<xmlgroups></xmlgroups>"
GROUPS = (
    b'<xmlgroups><membership><principal scope="GROUP">staff</principal><members>'
    b'<principal scope="USER">ada</principal></members></membership></xmlgroups>'
)
NO_GROUP = b"<xmlgroups><membership><members/></membership></xmlgroups>"
TO_GSA = ("-o", "out", "--to", "gsa-feed")
TO_GROUPS = ("-o", "out", "--to", "gsa-groups")
ALLOWED = "--allow-empty-full"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = convert(*args)
    return code, capsys.readouterr().err


# Empty full feeds


def test_an_empty_full_feed_stops_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("a.xml"), EMPTY)

    assert refusal(capsys, source, *TO_GSA) == (
        3,
        "feedferry: a.xml: a full feed of 'intranet' without anything to write; expected at least"
        " one document, as an empty full feed deletes every document of its datasource;"
        " --allow-empty-full writes it\n",
    )
    assert not Path("out/chunks").exists()


def test_an_empty_full_feed_that_is_allowed_is_a_chunk_without_records() -> None:
    source = put(Path("a.xml"), EMPTY)

    assert convert(source, *TO_GSA, ALLOWED) == 0
    assert chunks("out") == [
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
        b"<gsafeed>\n<header>\n<datasource>intranet</datasource>\n<feedtype>full</feedtype>\n"
        b"</header>\n<group>\n</group>\n</gsafeed>\n"
    ]
    (line,) = manifest("out")
    shown = ("datasource", "feedtype", "format", "records", "source", "first_url")
    assert [line[name] for name in shown] == ["intranet", "full", "gsa-feed", {}, "a.xml", ""]


def test_a_run_that_was_stopped_goes_on_when_the_empty_feed_is_allowed() -> None:
    source = put(Path("a.xml"), EMPTY)

    assert convert(source, *TO_GSA) == 3
    assert convert(source, *TO_GSA, ALLOWED) == 0
    assert column("out", "feedtype") == ["full"]


@pytest.mark.parametrize("markup", [b"<gsafeed/>", gsa_feed()])
def test_an_empty_feed_that_is_not_full_has_no_chunk(markup: bytes) -> None:
    source = put(Path("a.xml"), markup)

    assert convert(source, *TO_GSA) == 0
    assert chunks("out") == []


def test_an_empty_full_feed_keeps_the_place_of_its_input() -> None:
    put(Path("in/1.xml"), gsa_feed(*documents(1, 2), feedtype="full"))
    put(Path("in/2.xml"), EMPTY)
    put(Path("in/3.xml"), gsa_feed(*documents(3, 3)))

    assert convert("in", *TO_GSA) == 3
    assert convert("in", *TO_GSA, ALLOWED) == 0
    assert column("out", "source") == ["in/1.xml", "in/2.xml", "in/3.xml"]
    assert column("out", "feedtype") == ["full", "full", "incremental"]


def test_an_empty_full_feed_after_a_feed_of_another_datasource_is_found() -> None:
    text = gsa_feed(*documents(1, 1), feedtype="full") + gsa_feed(
        datasource="wiki", feedtype="full"
    )
    source = put(Path("a.xml"), text)

    assert convert(source, *TO_GSA) == 3
    assert convert(source, *TO_GSA, ALLOWED) == 0
    assert column("out", "datasource") == ["intranet", "wiki"]
    assert column("out", "feedtype") == ["full", "full"]


def test_a_full_feed_whose_last_span_has_only_rejects_is_not_empty() -> None:
    records = [*documents(1, 40, text="plan " * 50), *[BROKEN] * 40]
    source = put(Path("a.xml"), gsa_feed(*records, feedtype="full"))

    assert convert(source, *TO_GSA, "--span-bytes", "4KiB") == 1
    assert column("out", "feedtype")[0] == "full"
    assert set(column("out", "feedtype")[1:]) == {"incremental"}


def test_an_empty_full_feed_with_the_feedtype_incremental_has_no_chunk() -> None:
    source = put(Path("a.xml"), EMPTY)

    assert convert(source, *TO_GSA, "--feedtype", "incremental") == 0
    assert chunks("out") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.xml", gsa_feed()),
        ("a.jsonl", b"\n"),
        ("a.xml", b"<ThunderstoneReplication></ThunderstoneReplication>"),
    ],
)
def test_an_empty_source_with_the_feedtype_full_stops_the_run(name: str, text: bytes) -> None:
    format_ = {"a.jsonl": "native"}.get(name) or (
        "gsa-feed" if b"gsafeed" in text else "thunderstone"
    )
    source = put(Path(name), text)
    args = ("--from", format_, "--feedtype", "full", "--datasource", "wiki")

    assert convert(source, *args, *TO_GSA) == 3
    assert convert(source, *args, *TO_GSA, ALLOWED) == 0
    assert column("out", "datasource") == ["wiki"]
    assert b"<datasource>wiki</datasource>\n<feedtype>full</feedtype>" in chunks("out")[0]


def test_an_empty_part_of_a_full_feed_does_not_stop_the_run() -> None:
    put(Path("in/1.xml"), gsa_feed())
    put(Path("in/2.xml"), gsa_feed(*documents(1, 1)))

    assert convert("in", *TO_GSA, "--feedtype", "full") == 0
    assert column("out", "feedtype") == ["full"]


def test_a_datasource_without_records_among_full_feeds_stops_the_run() -> None:
    put(Path("in/1.xml"), gsa_feed(*documents(1, 1)))
    put(Path("in/2.xml"), gsa_feed(datasource="wiki"))

    assert convert("in", *TO_GSA, "--feedtype", "full") == 3
    assert convert("in", *TO_GSA, "--feedtype", "full", ALLOWED) == 0
    assert column("out", "datasource") == ["intranet", "wiki"]


def test_an_empty_tree_with_the_feedtype_full_stops_the_run() -> None:
    Path("docs").mkdir()
    args = ("docs", "--from", "files", "--base-url", "https://docs.example.com/")

    assert convert(*args, *TO_GSA, "--datasource", "docs", "--feedtype", "full") == 3
    assert convert(*args, *TO_GSA, "--datasource", "docs", "--feedtype", "full", ALLOWED) == 0
    assert column("out", "datasource") == ["docs"]


def test_a_tree_of_which_all_is_filtered_with_the_feedtype_full_stops_the_run() -> None:
    put(Path("docs/a.txt"), b"keel")
    args = ("docs", "--from", "files", "--base-url", "https://docs.example.com/")

    code = convert(
        *args, *TO_GSA, "--datasource", "docs", "--feedtype", "full", "--exclude", "*.txt"
    )
    assert code == 3


def test_an_empty_full_feed_without_a_datasource_asks_for_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = put(Path("a.jsonl"), b"\n")
    args = ("--from", "native", "--feedtype", "full", ALLOWED)

    code, err = refusal(capsys, source, *args, *TO_GSA)
    assert (code, "expected --datasource NAME" in err) == (2, True)


@pytest.mark.parametrize("target", ["thunderstone", "avro", "native", "lister-stream"])
def test_an_empty_full_feed_is_a_loss_where_the_target_knows_no_full_feeds(target: str) -> None:
    source = put(Path("a.xml"), EMPTY)

    assert convert(source, "-o", "out", "--to", target) == 0
    loss = report("out")["account"]["losses"]["feedtype"]
    assert (loss["count"], loss["samples"][0]["url"]) == (1, "a.xml")
    assert chunks("out") == []


# Groups


def test_an_empty_full_groups_feed_stops_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("groups.xml"), NO_GROUPS)

    assert refusal(capsys, source, *TO_GROUPS, "--datasource", "ldap", "--feedtype", "full") == (
        3,
        "feedferry: groups.xml: a full groups feed of 'ldap' without anything to write; expected at"
        " least one group, as an empty full feed deletes every group of its groupsource;"
        " --allow-empty-full writes it\n",
    )


def test_an_empty_full_groups_feed_that_is_allowed_is_a_chunk_without_memberships() -> None:
    source = put(Path("groups.xml"), NO_GROUPS)
    args = ("--datasource", "ldap", "--feedtype", "full", ALLOWED)

    assert convert(source, *TO_GROUPS, *args) == 0
    assert chunks("out") == [
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
        b"<xmlgroups>\n</xmlgroups>\n"
    ]
    (line,) = manifest("out")
    assert [line[name] for name in ("datasource", "feedtype", "format")] == [
        "ldap",
        "full",
        "gsa-groups",
    ]


def test_an_empty_groups_csv_with_the_feedtype_full_stops_the_run() -> None:
    source = put(Path("groups.csv"), b"group,member,scope\n")

    assert convert(source, *TO_GROUPS, "--datasource", "ldap", "--feedtype", "full") == 3


def test_an_empty_groups_feed_of_no_feedtype_is_noticed() -> None:
    source = put(Path("groups.xml"), NO_GROUPS)

    assert convert(source, *TO_GROUPS) == 0
    assert report("out")["account"]["notices"]["empty-groups"]["first"]["detail"] == (
        "a groups feed of which no group was read; it adds nothing, and deletes nothing either"
        " unless --feedtype full makes it a full feed"
    )


def test_a_full_groups_feed_whose_groups_are_all_rejected_is_never_written() -> None:
    source = put(Path("groups.xml"), NO_GROUP)
    args = ("--datasource", "ldap", "--feedtype", "full", ALLOWED)

    assert convert(source, *TO_GROUPS, *args) == 3
    assert convert(source, *TO_GROUPS, *args, "--accept-holes") == 1
    assert chunks("out") == []


# Spools


def test_an_empty_full_feed_of_a_spool_stops_the_run() -> None:
    spooled = HandSpool()
    spooled.feed(gsa_feed(*documents(1, 2)), feedtype="full")
    spooled.feed(EMPTY, feedtype="full")

    assert convert("spool", *TO_GSA) == 3
    assert convert("spool", *TO_GSA, ALLOWED) == 0
    assert column("out", "source") == ["spool#2"]
    assert column("out", "feedtype") == ["full"]


def test_empty_full_groups_of_a_spool_stop_the_run() -> None:
    spooled = HandSpool()
    spooled.groups(GROUPS, feedtype="full")
    spooled.groups(NO_GROUPS, feedtype="full")

    assert convert("spool", *TO_GROUPS) == 3
    assert convert("spool", *TO_GROUPS, ALLOWED) == 0
    assert [(line["source"], line["datasource"]) for line in manifest("out")] == [
        ("spool#2", "ldap")
    ]


# Holes


@pytest.mark.parametrize("record", [BROKEN, document(1).replace("url=", "uri=")])
def test_a_full_feed_whose_records_are_all_rejected_never_becomes_an_empty_one(
    record: str,
) -> None:
    source = put(Path("a.xml"), gsa_feed(record, feedtype="full"))

    assert convert(source, *TO_GSA, ALLOWED) == 3
    assert convert(source, *TO_GSA, ALLOWED, "--accept-holes") == 1
    assert chunks("out") == []


def test_a_full_feed_that_the_target_takes_no_record_of_never_becomes_an_empty_one() -> None:
    update = '<record url="http://e.example.com/a" mimetype="text/html"></record>'
    source = put(Path("a.xml"), gsa_feed(update, feedtype="full"))

    assert convert(source, *TO_GSA, ALLOWED) == 3
    assert convert(source, *TO_GSA, ALLOWED, "--accept-holes") == 1
    assert chunks("out") == []


def test_records_that_are_rejected_in_a_full_feed_do_not_stop_it() -> None:
    source = put(Path("a.xml"), gsa_feed(*documents(1, 2), BROKEN, feedtype="full"))

    assert convert(source, *TO_GSA) == 1
    assert column("out", "feedtype") == ["full"]


def test_rejects_of_another_input_do_not_keep_a_full_feed_from_being_empty() -> None:
    put(Path("in/1.xml"), gsa_feed(BROKEN))
    put(Path("in/2.xml"), EMPTY)

    assert convert("in", *TO_GSA, ALLOWED) == 1
    assert column("out", "source") == ["in/2.xml"]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (document(1, text="x" * 3000), "content-too-large"),
        (document(1, text="x" * 7_000_000), "record-too-large"),
        (
            document(1, text="<!-- ") + document(2) + document(3, text=" --> "),
            "ambiguous-comment",
        ),
    ],
    ids=["content-too-large", "record-too-large", "ambiguous-comment"],
)
def test_a_record_that_only_a_limit_refuses_is_a_hole_in_a_full_feed(
    record: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = put(Path("a.xml"), gsa_feed(record, *documents(4, 5), feedtype="full"))
    words = (source, *TO_GSA, "--max-content-bytes", "2000")

    exit_code, message = refusal(capsys, *words)
    assert (exit_code, "without 1 document or part of the input" in message) == (3, True)
    assert convert(*words, "--accept-holes") == 1
    assert report("out")["account"]["reject_codes"] == {code: 1}


def test_an_avro_container_of_a_full_feed_that_is_cut_off_is_a_hole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(Path("a.xml"), gsa_feed(*documents(1, 9), feedtype="full"))
    assert convert("a.xml", "--to", "avro", "-o", "archive") == 0
    whole = chunks("archive")[0]
    source = put(Path("cut.avro"), whole[:-100])

    assert refusal(capsys, source, *TO_GSA)[0] == 3
    assert convert(source, *TO_GSA, "--accept-holes") == 1
    assert report("out")["account"]["reject_codes"] == {"bad-avro": 1}


def test_a_link_without_a_target_is_rejected_with_its_name() -> None:
    put(Path("in/1.xml"), gsa_feed(*documents(1, 2)))
    Path("in/2.xml").symlink_to("nowhere.xml")

    assert convert("in", *TO_GSA) == 1
    assert report("out")["account"]["reject_codes"] == {"unreadable": 1}


def test_a_full_feed_without_its_end_stops_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = gsa_feed(*documents(1, 2), feedtype="full")
    source = put(Path("a.xml"), text[: text.index(b"</group>")])

    assert refusal(capsys, source, *TO_GSA) == (
        3,
        "feedferry: a.xml: a full feed of 'intranet' without 1 document or part of the input"
        " (unreadable, too large, rejected or up to date); expected all, as it deletes what it"
        " leaves out; --accept-holes goes on without them, --feedtype incremental deletes"
        " nothing\n",
    )
    assert convert(source, *TO_GSA, "--accept-holes") == 1
    assert column("out", "feedtype") == ["full"]


def test_a_full_feed_without_its_end_stops_an_archive_too() -> None:
    text = gsa_feed(*documents(1, 2), feedtype="full")
    source = put(Path("a.xml"), text[: text.index(b"</group>")])

    assert convert(source, "-o", "out", "--to", "avro") == 3
    assert convert(source, "-o", "out", "--to", "avro", "--accept-holes") == 1


# What other verbs show


def test_inspect_shows_a_feed_without_records(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("a.xml"), EMPTY)

    assert main(["inspect", source]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "intranet/full             0",
        "total                     0",
        "empty      intranet/full: a full feed without records, which deletes all of its"
        " datasource",
    ]


def test_inspect_counts_a_feed_without_records(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("a.xml"), EMPTY)

    main(["inspect", source, "--format", "json"])
    found: Any = json.loads(capsys.readouterr().out)
    assert found["feeds"] == [{"datasource": "intranet", "feedtype": "full", "actions": {}}]


def test_plan_reports_an_empty_full_feed_that_would_stop_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("docs").mkdir()
    args = ("docs", "--from", "files", "--base-url", "https://docs.example.com/", "--to")
    full = ("gsa-feed", "--datasource", "docs", "--feedtype", "full")

    assert main(["plan", *args, *full]) == 3
    assert "--allow-empty-full writes it" in capsys.readouterr().err
    assert main(["plan", *args, *full, ALLOWED]) == 0
