"""The headers of feeds: values that are repaired, and values that no appliance accepts."""

from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import document, documents, gsa_feed, put
from support.runs import column, convert, report

TO_GSA = ("-o", "out", "--to", "gsa-feed")
LONG = "a" * 251

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.mark.parametrize("feedtype", ["Full", "FULL", " full ", "\n\tfull\n"])
def test_case_and_blanks_of_a_feedtype_are_repaired_with_a_notice(feedtype: str) -> None:
    records = documents(1, 40, text="plan " * 50)
    source = put(Path("a.xml"), gsa_feed(*records, feedtype=feedtype, datasource=" wiki"))

    assert convert(source, *TO_GSA, "--span-bytes", "4KiB") == 0
    assert set(column("out", "datasource")) == {"wiki"}
    assert column("out", "feedtype")[0] == "full"
    notice = report("out")["account"]["notices"]["header-repaired"]
    assert (notice["count"], notice["first"]["detail"]) == (
        1,
        f"datasource and feedtype {(' wiki', feedtype)}; read as 'wiki' and 'full'",
    )


def test_an_empty_full_feed_in_upper_case_is_not_dropped() -> None:
    source = put(Path("a.xml"), gsa_feed(feedtype="FULL"))

    assert convert(source, *TO_GSA) == 3
    assert convert(source, *TO_GSA, "--allow-empty-full") == 0
    assert column("out", "feedtype") == ["full"]


@pytest.mark.parametrize(
    ("values", "where", "cure"),
    [
        ({"datasource": "a b"}, ":3: datasource 'a b'; expected a letter or _, ", "--datasource"),
        ({"datasource": "1a"}, ":3: datasource '1a'; expected a letter or _, ", "--datasource"),
        ({"datasource": LONG}, f":3: datasource '{LONG}'; expected a letter ", "--datasource"),
        ({"feedtype": "fulll"}, ":3: feedtype 'fulll'; expected full or ", "--feedtype"),
        ({"feedtype": "a b"}, ":3: feedtype 'a b'; expected full or ", "--feedtype"),
    ],
)
@pytest.mark.parametrize("is_empty", [False, True], ids=["records", "empty"])
def test_a_value_that_no_appliance_accepts_is_refused_before_anything_is_published(
    values: dict[str, str],
    where: str,
    cure: str,
    capsys: pytest.CaptureFixture[str],
    *,
    is_empty: bool,
) -> None:
    records = [] if is_empty else documents(1, 2)
    source = put(Path("a.xml"), gsa_feed(*records, **values))

    assert convert(source, *TO_GSA) == 4
    message = capsys.readouterr().err
    assert f"a.xml{where.removeprefix(':3') if is_empty else where}" in message
    assert message.splitlines()[0].endswith(f"correct the header, or give {cure}")
    assert not Path("out/chunks").exists()
    assert main(["plan", source, "--to", "avro"]) == 4
    cured = "wiki" if cure == "--datasource" else "incremental"
    assert convert(source, *TO_GSA, cure, cured) == 0
    assert column("out", cure.removeprefix("--")) == ([] if is_empty else [cured])
    assert main(["inspect", source]) == 0
    assert next(iter(values.values())) in capsys.readouterr().out


def test_a_value_in_an_archive_is_refused_in_the_same_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = (
        b'{"url":"http://e.example.com/1","action":"DELETE","provenance":'
        b'{"datasource":"a b","feedtype":"incremental","source":"old.xml","line":7}}\n'
    )
    source = put(Path("a.jsonl"), line)

    assert convert(source, *TO_GSA) == 4
    assert "old.xml:7: datasource 'a b'; expected a letter or _, " in capsys.readouterr().err


def test_an_unknown_feedtype_is_a_loss_for_a_target_without_feeds() -> None:
    feed = gsa_feed(document(1), feedtype="fulll", datasource="a b")

    assert convert(put(Path("a.xml"), feed), "-o", "out", "--to", "thunderstone") == 0
    loss = report("out")["account"]["losses"]["feedtype"]
    assert loss["samples"][0]["detail"].startswith("fulll: the target keeps what the feed leaves")
