"""`feedferry.beam` and Beam YAML: the examples of their page, and records as rows."""

import doctest
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from apache_beam.yaml import main as yaml_main
from msgspec.structs import replace

from feedferry.beam import RecordRow, from_row, to_row
from feedferry.pipelines.convert.workers.runners import LocalRunner
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.content import decode
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Content, Encoding, Meta, Provenance, Record
from feedferry.yaml_provider import AdaptRecords, ReadFeed
from support.archives import BROKEN, HOST, documents, gsa_feed
from support.runs import ROOT
from support.served import serving

PAGE = ROOT / "docs" / "beam.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_bytes(gsa_feed(*documents(1, 2)))
    return tmp_path


@pytest.mark.slow
def test_the_examples_of_the_page_give_what_it_shows(here: Path) -> None:
    fields = [{"name": name, "type": "string"} for name in ("url", "body", "mimetype", "author")]
    schema = {"type": "record", "name": "page", "fields": fields}
    page = {"url": f"{HOST}/a", "body": "Plan", "mimetype": "text/plain", "author": "ann"}
    with Path("pages.avro").open("wb") as stream:
        fastavro.writer(stream, schema, [page])
    with serving(here / "spool") as appliance:
        variables = {"APPLIANCE": appliance.url}
        failed, tried = doctest.testfile(str(PAGE), module_relative=False, extraglobs=variables)
        assert (failed, tried > 10) == (0, True)
        assert appliance.urls() == [f"{HOST}/a"]


@pytest.mark.slow
def test_the_yaml_of_the_page_pushes_what_it_keeps(here: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    Path("feed.yaml").write_text(text)
    with serving(here / "spool") as appliance:
        variables = json.dumps({"APPLIANCE": appliance.url})
        flags = ["--runner=FnApiRunner", "--yaml_pipeline_file=feed.yaml"]
        yaml_main.run([*flags, f"--jinja_variables={variables}"])
        assert appliance.urls() == [f"{HOST}/1.txt"]


EVERYTHING = Record(
    url=f"{HOST}/a",
    action=Action.UPDATE,
    content=Content(b"UGxhbg==", Encoding.BASE64),
    mimetype="text/plain",
    title="Plan",
    keywords="plan",
    metadata=(Meta("author", "ann"), Meta("author", "bob"), Meta("seal", "", b"\x00")),
    modified=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    acl=Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),)),
    provenance=Provenance(source="feed.xml", line=7, datasource="intranet", feedtype="incremental"),
)


def test_a_record_is_a_row_and_the_row_the_record_with_its_content_decoded() -> None:
    row = to_row(EVERYTHING)
    assert (row.content, row.datasource, row.metadata[0].value) == (b"Plan", "intranet", "ann")
    coder = beam.coders.registry.get_coder(RecordRow)
    assert coder.decode(coder.encode(row)) == row
    assert from_row(coder.decode(coder.encode(row))) == _decoded(EVERYTHING)


def _decoded(record: Record) -> Record:
    assert record.content is not None
    return replace(record, content=Content(decode(record.content)))


def test_rows_of_connectors_have_the_columns_that_they_have() -> None:
    time = Timestamp.from_rfc3339("2026-01-02T00:00:00Z")
    row = beam.Row(url="u", author=1, title=None, metadata={"a": "b"}, modified=time)
    expected = Record(
        url="u",
        action=Action.ADD,
        metadata=(Meta("a", "b"),),
        modified=datetime(2026, 1, 2, tzinfo=UTC),
    )
    assert from_row(row) == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "Object missing required field `url`"),
        ({"url": 1}, "Expected `str`, got `int` - at `$.url`"),
        ({"url": "u", "content": "text"}, "Expected `bytes`, got `str` - at `$.content.data`"),
        ({"url": "u", "acl": "null"}, "Expected `object`, got `null`"),
        ({"url": "u", "acl": 1}, "a bytes-like object is required, not 'int'"),
        ({"url": "u", "metadata": ["a"]}, "'str' object has no attribute '_asdict'"),
        ({"url": "u", "modified": datetime(2026, 1, 2)}, "a time without a zone"),
    ],
)
def test_a_row_with_a_value_of_another_type_is_refused(
    columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecordError, match=re.escape(message)) as caught:
        from_row(beam.Row(**columns))
    assert caught.value.code == "bad-row"
    assert str(caught.value).endswith("expected a row with columns of RecordRow")


@pytest.mark.slow
@pytest.mark.kind("pipeline")
def test_rejects_have_an_output_or_end_the_pipeline(here: Path) -> None:
    Path("feed.xml").write_bytes(gsa_feed(*documents(1, 1), BROKEN))
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        outputs = pipeline | ReadFeed("feed.xml", error_handling={"output": "rejects"})
        codes = outputs["rejects"] | beam.Map(lambda row: row.code)
        assert_that(codes, equal_to(["malformed"]))
        adapted = outputs["output"] | AdaptRecords("thunderstone")
        assert_that(adapted | beam.Map(lambda row: row.url), equal_to([f"{HOST}/1.txt"]), "urls")

    pipeline = beam.Pipeline(runner=LocalRunner())
    _ = pipeline | ReadFeed("feed.xml")
    with pytest.raises(Exception, match=r"feed\.xml:4 .*; error_handling gives rejects an output"):
        pipeline.run()
