"""A defect of a reader costs the record that it appears in, and no other."""

import io
from collections.abc import Sequence

import pytest

from feedferry.schemas.errors import SourceError
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import DEFECT, Reject, defect_type
from feedferry.schemas.span import ElementContext, Span
from feedferry.testing.defects import break_at, put_in
from feedferry.transforms.formats import ReadOptions, ReadResult, StreamOptions, by_name
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.elements import ElementReader, Grammar, ParsedElement
from kits import KITS
from kits.base import MARK
from kits.command_stream import DOCIDS

OPTIONS = ReadOptions(own=(StreamOptions(docids=DOCIDS),))
VOCABULARY = ElementNames(root="gsafeed", records=("record",))


def read(name: str, document: bytes, *, options: ReadOptions = OPTIONS) -> list[ReadResult]:
    return list(by_name(name).read(io.BytesIO(document), span=Span(source="f"), options=options))


def rejects(results: Sequence[ReadResult]) -> list[Reject]:
    return [item for item in results if isinstance(item, Reject)]


def records(results: Sequence[ReadResult]) -> list[Record | Membership]:
    return [item for item in results if isinstance(item, Record | Membership)]


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
    put_in(monkeypatch, KITS[name])
    lines = [record.format(MARK if number == 250 else number) for number in range(500)]

    results = read(name, "".join((head, *lines, tail)).encode())

    assert [reject.code for reject in rejects(results)] == [DEFECT]
    assert len(results) == 500


# A function that fails is handed in


def build(parsed: ParsedElement) -> Record:
    raise TypeError(parsed.raw.name)


def test_a_function_of_a_grammar_that_fails_costs_each_record_for_itself() -> None:
    stream = io.BytesIO(b'<gsafeed><record url="a"/><record url="b"/></gsafeed>')
    grammar = Grammar(VOCABULARY, build)
    results = list(ElementReader(stream, grammar, span=Span(source="f"), options=OPTIONS).read())
    assert [defect_type(reject) for reject in rejects(results)] == ["TypeError"] * 2


@pytest.mark.parametrize("exc", [SourceError("gone"), OSError("gone"), MemoryError()])
def test_what_concerns_more_than_a_record_ends_the_reading(exc: Exception) -> None:
    def fail(parsed: ParsedElement) -> Record:
        raise exc

    stream = io.BytesIO(b'<gsafeed><record url="a"/></gsafeed>')
    grammar = Grammar(VOCABULARY, fail)
    with pytest.raises(type(exc)):
        list(ElementReader(stream, grammar, span=Span(), options=OPTIONS).read())


# Command streams in strict is_strict


@pytest.mark.parametrize("name", [name for name, kit in KITS.items() if kit.is_loose])
def test_a_defect_is_no_fault_of_a_strict_stream(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch, KITS[name])
    header = b"GSA Adaptor Data Version 1 [\0]\0"
    options = ReadOptions(
        own=(StreamOptions(docids=OPTIONS.of(StreamOptions).docids, strict=True),)
    )

    results = read(name, header + f"id={MARK}\0".encode(), options=options)

    assert [reject.code for reject in rejects(results)] == [DEFECT]


def test_a_group_that_cannot_be_entered_once_is_not_taken_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[ElementContext] = []

    def fails_first(context: ElementContext) -> bool:
        entered.append(context)
        return b"delete" in context.group and sum(b"delete" in item.group for item in entered) < 4

    break_at(
        monkeypatch, "feedferry.transforms.formats.gsa.record_reader.feed_context", fails_first
    )
    document = (
        b'<gsafeed><group><record url="a"/></group><group action="delete"><record url="b"/>'
        b'<record url="c"/><record url="d"/></group></gsafeed>'
    )
    results = read("gsa-feed", document)
    actions = {record.url: record.action for record in results if isinstance(record, Record)}
    assert actions["a"] is Action.UPDATE
    assert {actions.get(url, Action.DELETE) for url in "bcd"} == {Action.DELETE}
    assert rejects(results)
