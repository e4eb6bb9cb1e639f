"""Spools of a receiver, converted by the command line."""

import os
from pathlib import Path

import pytest

from feedferry.pipelines.serve.spool_writer import SpoolWriter
from feedferry.schemas.delivery import JOURNAL
from support.archives import HOST, document, documents, gsa_feed, put, thunderstone
from support.runs import column, convert, manifest, report
from support.spools import HandSpool, delivered

LONG = "plan " * 200

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def spool(here: Path) -> HandSpool:
    """A spool in a folder of this name, without a delivery."""
    return HandSpool("spool")


@pytest.fixture
def interleaved(spool: HandSpool) -> HandSpool:
    """Two datasources whose feeds came in turn; the second feed of `crm` is full."""
    spool.feed(gsa_feed(document(1)), "crm", "full")
    spool.feed(gsa_feed(document(2)), "wiki", "full")
    spool.feed(gsa_feed(document(3)), "crm")
    spool.feed(gsa_feed(document(4)), "wiki")
    spool.feed(gsa_feed(document(5)), "crm", "full")
    spool.feed(gsa_feed(document(6)), "crm")
    return spool


def groups(*names: str) -> bytes:
    """A groups feed of these groups, without members."""
    memberships = (
        f'<membership><principal scope="GROUP">{name}</principal><members></members></membership>\n'
        for name in names
    )
    return f"<xmlgroups>\n{''.join(memberships)}</xmlgroups>\n".encode()


def sent(folder: str = "out") -> list[tuple[str, str, str]]:
    """Datasource, feedtype and first URL of each chunk."""
    return [
        (line["datasource"], line["feedtype"], line["first_url"].removeprefix(f"{HOST}/"))
        for line in manifest(folder)
    ]


def notices(folder: str = "out") -> dict[str, tuple[int, str]]:
    """The notices in the report of a run by code: their number, and the detail of the first."""
    counted = report(folder)["account"]["notices"]
    return {code: (noted["count"], noted["first"]["detail"]) for code, noted in counted.items()}


# What is read, and in which order


def test_feeds_are_read_in_their_order_of_arrival(interleaved: HandSpool) -> None:
    code = convert("spool", "--from", "spool", "--history", "all", "-o", "out", "--to", "gsa-feed")

    assert (code, sent()) == (
        0,
        [
            ("crm", "full", "1.txt"),
            ("wiki", "full", "2.txt"),
            ("crm", "incremental", "3.txt"),
            ("wiki", "incremental", "4.txt"),
            ("crm", "full", "5.txt"),
            ("crm", "incremental", "6.txt"),
        ],
    )


def test_superseded_feeds_are_a_notice_and_in_no_account_of_records(interleaved: HandSpool) -> None:
    convert("spool", "--from", "spool", "-o", "out", "--to", "gsa-feed")

    assert sent() == [
        ("wiki", "full", "2.txt"),
        ("wiki", "incremental", "4.txt"),
        ("crm", "full", "5.txt"),
        ("crm", "incremental", "6.txt"),
    ]
    detail = "later feeds supersede 2 of 'crm'; left out: --history all reads them"
    assert notices() == {"superseded": (2, detail)}
    account = report("out")["account"]
    assert (account["read"], account["written"]) == ({"ADD": 4}, {"ADD": 4})


def test_a_spool_of_which_all_is_superseded_has_notices_only(spool: HandSpool) -> None:
    spool.groups(groups("staff"))
    spool.cleanup()

    code = convert("spool", "-o", "out", "--to", "gsa-groups")

    assert (code, manifest("out"), sorted(notices())) == (0, [], ["cleanup", "superseded"])


# What was posted


def test_posted_names_override_the_header_in_every_part_of_a_long_feed(spool: HandSpool) -> None:
    spool.feed(gsa_feed(*documents(1, 80, text=LONG), datasource="header"), "posted", "full")

    args = ("--span-bytes", "16KiB", "--max-chunk-bytes", "64KiB")
    convert("spool", "-o", "out", "--to", "gsa-feed", *args)

    assert column("out", "datasource") == ["posted"] * 6
    assert column("out", "feedtype") == ["full", *["incremental"] * 5]


def test_a_full_feed_in_many_parts_comes_before_later_feeds(spool: HandSpool) -> None:
    spool.feed(gsa_feed(*documents(1, 40, text=LONG)), "crm", "full")
    spool.feed(gsa_feed(document(41)), "crm")

    convert("spool", "-o", "out", "--to", "gsa-feed", "--span-bytes", "16KiB")

    assert sent() == [
        ("crm", "full", "1.txt"),
        ("crm", "incremental", "16.txt"),
        ("crm", "incremental", "31.txt"),
        ("crm", "incremental", "41.txt"),
    ]


# Other targets


def test_each_groupsource_is_a_datasource_of_its_own(spool: HandSpool) -> None:
    spool.groups(groups("staff"), "ldap", "full")
    spool.groups(groups("eng"), "ggg", "replace")
    spool.groups(groups("yard"), "ldap")

    convert("spool", "-o", "out", "--to", "gsa-groups")

    assert sent() == [
        ("ldap", "full", "staff"),
        ("ggg", "full", "eng"),
        ("ldap", "incremental", "yard"),
    ]


def test_a_groupsource_is_kept_by_an_archive(spool: HandSpool) -> None:
    spool.groups(groups("staff"), "ldap", "full")
    spool.groups(groups("eng"), "ggg")
    convert("spool", "-o", "kept", "--to", "avro")

    convert("kept/chunks", "-o", "out", "--to", "gsa-groups")

    assert sent() == [("ldap", "full", "staff"), ("ggg", "incremental", "eng")]


def test_feeds_of_all_doors_go_into_one_archive(spool: HandSpool) -> None:
    spool.feed(gsa_feed(document(1)))
    spool.groups(groups("staff"))
    spool.data(thunderstone(f"{HOST}/2"))

    convert("spool", "-o", "out", "--to", "jsonl")

    assert report("out")["account"]["written"] == {"ADD": 2, "MEMBERSHIP": 1}


# What cannot be read


def test_a_missing_file_of_a_superseded_feed_is_no_fault(spool: HandSpool) -> None:
    os.unlink(spool.feed(gsa_feed(document(1))))
    spool.feed(gsa_feed(document(2)), feedtype="full")

    assert convert("spool", "-o", "out", "--to", "jsonl") == 0


def test_a_damaged_journal_ends_with_4_before_anything_is_touched(
    interleaved: HandSpool, capsys: pytest.CaptureFixture[str]
) -> None:
    interleaved.tear(b"{}\n")

    code = convert("spool", "-o", "out", "--to", "jsonl", "--fresh")

    path = Path("spool", JOURNAL).absolute()
    assert (code, Path("out").exists(), capsys.readouterr().err.splitlines()[0]) == (
        4,
        False,
        f"feedferry: {path}:7: Object missing required field `ordinal`; expected a delivery, as"
        " feedferry serve writes it: restore the file from a copy, or take the line out, and all"
        " but the feed that it names is read",
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("spool", "spool/feeds/000001.xml"),
            "INPUT: 'spool' is a spool, and 'spool/feeds/000001.xml' is another input; expected a"
            " run for each",
        ),
        (("spool", "--state", "s"), "--state s: of spool; expected one tree or one database"),
    ],
    ids=["another input", "state"],
)
def test_unusable_inputs_and_options_end_with_2(
    interleaved: HandSpool, args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(*args, "-o", "out", "--to", "gsa-feed")

    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")


# A spool that grows


def stopped(spool: HandSpool) -> str:
    """A run that stopped, as a feed was too short; return the words of that run."""
    spool.feed(gsa_feed(document(1)))
    path = Path(spool.feed(gsa_feed(document(2))))
    text = path.read_bytes()
    path.write_bytes(text[:-1])
    assert convert("spool", "-o", "out", "--to", "jsonl", "-q") == 4
    path.write_bytes(text)
    return "spool"


def test_a_resumed_run_reads_the_feeds_of_its_begin(spool: HandSpool) -> None:
    words = stopped(spool)
    spool.feed(gsa_feed(document(3)), feedtype="full")

    convert(words, "-o", "out", "--to", "jsonl")

    assert column("out", "source") == ["spool#1", "spool#2"]


def test_a_run_is_not_resumed_with_another_spool(spool: HandSpool) -> None:
    words = stopped(spool)
    put(Path("spool", JOURNAL), b"")
    HandSpool("spool").data(thunderstone(f"{HOST}/7"))

    convert(words, "-o", "out", "--to", "jsonl")

    assert column("out", "last_url") == [f"{HOST}/7"]


# A spool as a receiver writes it


def test_the_spool_of_a_receiver_is_read() -> None:
    texts = (gsa_feed(document(1)), gsa_feed(document(2)))
    with SpoolWriter(Path("spool")) as spool:
        for text in texts:
            with spool.open_intake() as intake:
                intake.write(text)
                spool.commit(delivered(0, path=None, datasource="crm"), intake)
        spool.commit(delivered(0, "xmlgroups", path=None, feedtype="cleanup"))
        convert("spool", "-o", "out", "--to", "gsa-feed")

    assert sent() == [("crm", "incremental", "1.txt"), ("crm", "incremental", "2.txt")]
    assert notices()["cleanup"][0] == 1
