"""A run is imported by one request, and its operation is waited for."""

from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError
from feedferry.testing import scripted_server
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.discovery_engine.import_operation import check_feeds
from support.data_store_server import OPERATION, STORE, DataStore

pytestmark = [pytest.mark.slow]
RECORD = '<record url="http://h.x/{}" mimetype="text/plain"><content>x</content></record>'


def converted(folder: Path, *, feedtype: str, documents: int = 3) -> Path:
    """Return the folder of a converted run."""
    records = "".join(RECORD.format(number) for number in range(documents))
    header = f"<header><datasource>docs</datasource><feedtype>{feedtype}</feedtype></header>"
    source, run = folder / "docs.xml", folder / "run"
    source.write_text(f"<gsafeed>{header}<group>{records}</group></gsafeed>", "utf-8")
    assert main(["convert", str(source), "-o", str(run), "--to", "discovery-engine"]) == 0
    return run


def push(run: Path, url: str, *words: str) -> int:
    into = ["--set", "target.import_from=gs://bucket/run", *words]
    return main(["push", str(run), "--to", url + STORE, *into])


@pytest.mark.parametrize("feedtype", ["full", "incremental"])
def test_a_run_is_one_import_whose_counts_are_compared(tmp_path: Path, feedtype: str) -> None:
    run, store = converted(tmp_path, feedtype=feedtype), DataStore(3)
    with scripted_server(store.reply) as url:
        assert push(run, url) == 0
        assert push(run, url) == 0
    assert store.imports == [
        {
            "gcsSource": {
                "inputUris": ["gs://bucket/run/000001.jsonl"],
                "dataSchema": "document",
            },
            "reconciliationMode": feedtype.upper(),
        }
    ]
    assert store.requests == [
        f"GET {STORE}",
        f"POST {STORE}/branches/default_branch/documents:import",
        *[f"GET /v1/{OPERATION}"] * 3,
    ]


def test_a_push_fails_if_documents_were_not_imported_and_does_not_import_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = converted(tmp_path, feedtype="full")
    store = DataStore(3, failures=["Document u1 has a content of an unknown type."])
    with scripted_server(store.reply) as url:
        codes = [push(run, url), push(run, url)]
    assert codes == [4, 4]
    assert len(store.imports) == 1
    words = capsys.readouterr()
    assert (
        "2 documents imported, 1 failed, such as 'Document u1 has a content of an unknown type.';"
        " expected 3" in words.out + words.err
    )


def test_counts_that_differ_from_those_of_the_run_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_server(DataStore(2).reply) as url:
        assert push(converted(tmp_path, feedtype="full"), url) == 4
    words = capsys.readouterr()
    assert "2 documents imported, 0 failed; expected 3" in words.out + words.err


def test_nothing_is_imported_into_a_data_store_without_access_control(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DataStore(3, has_acls=False)
    with scripted_server(store.reply) as url:
        assert push(converted(tmp_path, feedtype="full"), url) == 4
    assert store.imports == []
    words = capsys.readouterr()
    assert "a data store without access control, which shows all documents" in words.out + words.err


def test_a_run_on_this_machine_needs_the_folder_of_its_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = converted(tmp_path, feedtype="full")
    with scripted_server(DataStore(3).reply) as url:
        assert main(["push", str(run), "--to", url + STORE]) == 2
    words = capsys.readouterr()
    assert "a run on this machine; expected one in gs://BUCKET/RUN" in words.out + words.err


def test_verify_says_that_the_service_shows_no_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = converted(tmp_path, feedtype="full")
    with scripted_server(DataStore(3).reply) as url:
        assert main(["verify", str(run), "--against", url + STORE]) == 2
    words = capsys.readouterr()
    assert "does not show the documents of a data store" in words.out + words.err


def chunk(ordinal: int, *, datasource: str = "docs", records: int = 1) -> Chunk:
    return Chunk(
        ordinal=ordinal,
        path=f"chunks/{ordinal}.jsonl",
        bytes=1,
        sha256="",
        records={"ADD": records},
        datasource=datasource,
        feedtype="full",
        first_url="http://h.x/0",
        last_url="http://h.x/9",
        source="feed.xml",
        span=0,
        format="discovery-engine",
        requested_feedtype="full",
    )


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([chunk(0), chunk(1, datasource="web")], "the datasources docs, web; expected one"),
        ([chunk(number) for number in range(101)], "101 files; expected 100 at most"),
        ([chunk(0, records=0)], "a full feed without documents"),
    ],
)
def test_chunks_that_no_import_can_have_are_refused(chunks: list[Chunk], message: str) -> None:
    appliance = parse_target(f"http://127.0.0.1{STORE}")
    with pytest.raises(ConfigError) as exc:
        check_feeds(appliance, chunks)
    assert message in str(exc.value)
