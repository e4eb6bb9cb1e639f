"""A defect of a reader costs the record that it appears in, and no other."""

import io
from collections.abc import Sequence

import pytest

from schemas.errors import SourceError
from schemas.membership import Membership
from schemas.record import Action, Record
from schemas.reject import DEFECT, Reject, defect_type
from schemas.span import ElementContext, Span
from support.defects import FAULTS, MARK, break_at, put_in
from transforms.formats import (
    FORMATS,
    Docids,
    Mode,
    ReadOptions,
    ReadResult,
    StreamOptions,
    by_name,
)
from transforms.formats.element_names import ElementNames
from transforms.formats.xml.elements import ElementReader, Grammar, ParsedElement
from transforms.formats.xml.scanner import RawElement

OPTIONS = ReadOptions(own=(StreamOptions(docids=Docids(base_url="http://intranet.example.com/")),))
VOCABULARY = ElementNames(root="gsafeed", records=("record",))


def read(name: str, document: bytes, *, options: ReadOptions = OPTIONS) -> list[ReadResult]:
    return list(by_name(name).read(io.BytesIO(document), span=Span(source="f"), options=options))


def rejects(found: Sequence[ReadResult]) -> list[Reject]:
    return [one for one in found if isinstance(one, Reject)]


WHOLE = {
    name: [one for one in read(name, fault.document) if isinstance(one, Record | Membership)]
    for name, fault in FAULTS.items()
}
"""What is read where nothing fails."""


@pytest.fixture
def faulty(name: str, monkeypatch: pytest.MonkeyPatch) -> list[ReadResult]:
    """What a reader finds of three records if it fails at the second."""
    put_in(monkeypatch, FAULTS[name])
    return read(name, FAULTS[name].document)


def test_every_reader_is_tried_with_three_records() -> None:
    assert FAULTS.keys() == {format_.name for format_ in FORMATS}
    assert {name: len(whole) for name, whole in WHOLE.items()} == dict.fromkeys(FAULTS, 3)


@pytest.mark.parametrize("name", FAULTS)
def test_a_defect_costs_one_record_whose_reject_has_its_bytes(
    name: str, faulty: list[ReadResult]
) -> None:
    whole = [one for one in WHOLE[name] if MARK not in (one.url or "")]
    assert [one for one in faulty if isinstance(one, Record | Membership)] == whole
    (reject,) = rejects(faulty)
    document, cost = FAULTS[name].document, FAULTS[name].cost
    assert (reject.code, defect_type(reject), reject.data) == (DEFECT, "KeyError", cost)
    assert document[reject.offset : reject.offset + reject.length] == cost
    assert reject.reason.startswith("a defect of feedferry: KeyError in ")
    assert "secret" not in reject.reason


# Readers with a fast path


@pytest.mark.parametrize(
    ("name", "head", "record", "tail"),
    [
        ("gsa-feed", "<gsafeed><group>", '<record url="http://a/{}"/>', "</group></gsafeed>"),
        ("lister-stream", "GSA Adaptor Data Version 1 [\0]\0", "id={}\0", ""),
    ],
)
def test_a_run_of_records_is_read_one_by_one_if_one_is_defective(
    name: str, head: str, record: str, tail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch, FAULTS[name])
    records = [record.format(MARK if number == 250 else number) for number in range(500)]

    found = read(name, "".join((head, *records, tail)).encode())

    assert [reject.code for reject in rejects(found)] == [DEFECT]
    assert len(found) == 500


# A function that fails is handed in


def build(parsed: ParsedElement) -> Record:
    raise TypeError(parsed.raw.name)


def quick(unit: RawElement) -> Record | None:
    raise LookupError(unit.name)


@pytest.mark.parametrize(
    ("grammar", "types"),
    [
        (Grammar(VOCABULARY, build), ["TypeError"] * 2),
        (Grammar(VOCABULARY, build, quick), ["LookupError"] * 2),
    ],
)
def test_a_function_of_a_grammar_that_fails_costs_each_record_for_itself(
    grammar: Grammar[Record], types: list[str]
) -> None:
    stream = io.BytesIO(b'<gsafeed><record url="a"/><record url="b"/></gsafeed>')
    found = list(ElementReader(stream, grammar, span=Span(source="f"), options=OPTIONS).read())
    assert [defect_type(reject) for reject in rejects(found)] == types


@pytest.mark.parametrize("exc", [SourceError("gone"), OSError("gone"), MemoryError()])
def test_what_concerns_more_than_a_record_ends_the_reading(exc: Exception) -> None:
    def fail(parsed: ParsedElement) -> Record:
        raise exc

    stream = io.BytesIO(b'<gsafeed><record url="a"/></gsafeed>')
    grammar = Grammar(VOCABULARY, fail)
    with pytest.raises(type(exc)):
        list(ElementReader(stream, grammar, span=Span(), options=OPTIONS).read())


# Command streams in strict mode


@pytest.mark.parametrize("name", ["lister-stream", "retriever-stream", "authorizer-stream"])
def test_a_defect_is_no_fault_of_a_strict_stream(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch, FAULTS[name])
    header = b"GSA Adaptor Data Version 1 [\0]\0"
    options = ReadOptions(
        own=(StreamOptions(docids=OPTIONS.of(StreamOptions).docids, mode=Mode.STRICT),)
    )

    found = read(name, header + f"id={MARK}\0".encode(), options=options)

    assert [reject.code for reject in rejects(found)] == [DEFECT]


def test_a_group_that_cannot_be_entered_once_is_not_taken_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[ElementContext] = []

    def fails_first(context: ElementContext) -> bool:
        entered.append(context)
        return b"delete" in context.group and sum(b"delete" in one.group for one in entered) < 4

    break_at(monkeypatch, "transforms.formats.gsa.record_reader.feed_context", fails_first)
    document = (
        b'<gsafeed><group><record url="a"/></group><group action="delete"><record url="b"/>'
        b'<record url="c"/><record url="d"/></group></gsafeed>'
    )
    found = read("gsa-feed", document)
    actions = {one.url: one.action for one in found if isinstance(one, Record)}
    assert actions["a"] is Action.UPDATE
    assert {actions.get(url, Action.DELETE) for url in "bcd"} == {Action.DELETE}
    assert rejects(found)
