"""Round trips of command streams, strictly and with repairs."""

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.transforms.formats import Docids, StreamOptions, by_name
from feedferry.transforms.formats.base import ReadOptions, WriteOptions
from support.command_streams import MODES
from support.stream_strategies import (
    DELIMITERS,
    answers,
    documents,
    hostile_texts,
    listings,
    questions,
)
from support.streams import read_both_ways

pytestmark = pytest.mark.slow

SAME = Docids()
BASE = Docids(base_url="http://adaptor.example.com/doc/")
TEMPLATE = Docids(template="https://docs.example.com/view?id={id}&v=1")
GIVEN = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def write(format_name: str, records: list[Record], options: WriteOptions) -> bytes:
    """The stream of all records in one frame, so that lists are made."""
    encoder = by_name(format_name).make_encoder(options)
    encoded = [encoder.encode(record) for record in records]
    return encoder.prolog() + encoder.frame(encoded) + encoder.epilog()


def read(format_name: str, data: bytes, is_strict: bool, docids: Docids = SAME) -> list[Any]:
    """The results without their places, and without notices of unknown commands."""
    options = ReadOptions(own=(StreamOptions(strict=is_strict, docids=docids),))
    results = read_both_ways(partial(by_name(format_name).read, options=options), data)
    results = [
        item for item in results if not getattr(item, "code", "").startswith("unknown-command")
    ]
    return [
        replace(item, provenance=Provenance()) if isinstance(item, Record) else item
        for item in results
    ]


@MODES
@pytest.mark.parametrize(
    ("format_name", "strategy"),
    [
        ("lister-stream", listings()),
        ("retriever-stream", documents().map(lambda record: [record])),
        ("authorizer-stream", answers() | questions()),
    ],
    ids=["lister", "retriever", "authorizer"],
)
@GIVEN
@given(data=st.data(), delimiter=st.sampled_from(DELIMITERS))
def test_records_survive_a_round_trip_with_any_delimiter_and_without_repairs(
    is_strict: bool,
    format_name: str,
    strategy: SearchStrategy[list[Record]],
    data: st.DataObject,
    delimiter: str,
) -> None:
    records = data.draw(strategy)
    try:
        written = write(
            format_name, records, WriteOptions(own=(StreamOptions(delimiter=delimiter),))
        )
    except RecordError as exc:
        assume(exc.code != "unsafe-delimiter")
        raise
    assert read(format_name, written, is_strict) == records


@MODES
@pytest.mark.parametrize("docids", [BASE, TEMPLATE], ids=["base-url", "template"])
@given(docid=hostile_texts())
def test_a_doc_id_survives_a_round_trip_by_its_url(
    is_strict: bool, docids: Docids, docid: str
) -> None:
    data = write("lister-stream", [Record(url=docid, action=Action.ADD)], WriteOptions())
    (record,) = read("lister-stream", data, is_strict, docids)
    again = write("lister-stream", [record], WriteOptions(own=(StreamOptions(docids=docids),)))
    assert again == data


@MODES
@pytest.mark.parametrize("docids", [BASE, TEMPLATE], ids=["base-url", "template"])
@given(record=documents())
def test_a_document_survives_a_round_trip_by_a_rule(
    is_strict: bool, docids: Docids, record: Record
) -> None:
    (ruled,) = read(
        "retriever-stream", write("retriever-stream", [record], WriteOptions()), is_strict, docids
    )
    data = write("retriever-stream", [ruled], WriteOptions(own=(StreamOptions(docids=docids),)))
    assert read("retriever-stream", data, is_strict, docids) == [ruled]
    assert read("retriever-stream", data, is_strict) == [record]


@given(record=documents())
def test_a_repeated_principal_is_kept_in_lenient_mode(record: Record) -> None:
    acl = record.acl or Acl()
    twice = replace(record, acl=replace(acl, principals=acl.principals * 2))
    data = write("retriever-stream", [twice], WriteOptions())
    assert read("retriever-stream", data, False) == [twice]
