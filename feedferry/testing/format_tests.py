"""The tests of a format, made from its kit."""

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import REFUSED
from feedferry.schemas.record import Action, Crawl, Record
from feedferry.schemas.reject import DEFECT, Filtered, Reject, defect_type
from feedferry.schemas.span import Span
from feedferry.testing.defects import put_in
from feedferry.testing.format_kit import MARK, FormatKit, sample_items, written_of
from feedferry.testing.hostile_streams import hostile
from feedferry.testing.mutations import Mutator
from feedferry.testing.protected_records import check_protection, protected_records
from feedferry.testing.reader_properties import (
    Property,
    Violation,
    check,
    check_memory,
    one_document,
    without_place,
)
from feedferry.testing.strategies import records
from feedferry.transforms.formats import FORMATS, ReadResult, sniff
from feedferry.transforms.formats.holding.adapt_rules import is_alone
from feedferry.transforms.rules.adapt import Target, adapt, adapt_membership
from feedferry.transforms.rules.losses import loss_table
from feedferry.transforms.rules.normalize import normalize

MAX_SEED_BYTES = 16 << 10
SNIFFED_BYTES = 4096
_Test = TypeVar("_Test", bound=Callable[..., None])


def _of(applies: Callable[[FormatKit], bool]) -> Callable[[_Test], _Test]:
    """Make a test for those kits only to which it applies."""

    def mark(test: _Test) -> _Test:
        test.applies = applies  # type: ignore[attr-defined]  # pytest_generate_tests reads it
        return test

    return mark


def is_read(kit: FormatKit) -> bool:
    return kit.format.is_read


def is_written(kit: FormatKit) -> bool:
    return kit.is_written


def has_places(kit: FormatKit) -> bool:
    return kit.format.places is not None and is_read(kit)


class KitTests:
    """Tests with a parameter `kit`: each of `kits`."""

    kits: ClassVar[Sequence[FormatKit]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "kit" in metafunc.fixturenames:
            applies = getattr(metafunc.function, "applies", lambda _kit: True)
            kits = [kit for kit in self.kits if applies(kit)]
            metafunc.parametrize("kit", kits, ids=[kit.name for kit in kits])

    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        """Let the registry know formats of packages that are not installed."""
        formats = [kit.format for kit in self.kits]
        with FORMATS.registered(*(each for each in formats if FORMATS.find(each.name) is None)):
            yield


class FormatExamples(KitTests):
    """Fast tests of a format: detection, defects, round trips, losses and places of records."""

    @_of(is_read)
    def test_the_format_of_a_document_is_found(self, kit: FormatKit) -> None:
        assert sniff(kit.document[:SNIFFED_BYTES]) == kit.name

    @_of(is_read)
    def test_a_document_of_another_format_is_not_taken_for_it(self, kit: FormatKit) -> None:
        others = [each for each in FORMATS.ours if each.encoder and each.name != kit.name]
        heads = [written_of(other, sample_items())[:SNIFFED_BYTES] for other in others]
        assert [
            other.name
            for other, head in zip(others, heads, strict=True)
            if kit.format.matches(head)
        ] == []

    @_of(is_read)
    def test_a_defect_costs_one_record_whose_reject_has_its_bytes(
        self, kit: FormatKit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        document = kit.document
        first, second, third = _records(_read(kit, document))
        assert MARK in second.url

        put_in(monkeypatch, kit)
        results = _read(kit, document)

        assert _records(results) == [first, third]
        (reject,) = (result for result in results if isinstance(result, Reject))
        assert (reject.code, defect_type(reject)) == (DEFECT, "KeyError")
        assert MARK.encode() in reject.data
        assert kit.record_of(MARK).startswith(reject.data.strip())
        assert document[reject.offset : reject.offset + reject.length] == reject.data
        assert reject.reason.startswith("a defect of feedferry: KeyError in ")
        assert "secret" not in reject.reason

    @_of(lambda kit: is_read(kit) and kit.format.encoder is not None)
    def test_samples_of_all_kinds_and_fields_are_read_as_they_were_written(
        self, kit: FormatKit
    ) -> None:
        """What is read is written to the same bytes, and is the record that was adapted."""
        for item in sample_items():
            target = Target(format=kit.name, feedtype="incremental")
            for held in _held(kit, item, target):
                text = one_document(kit, held, kit.options[0])
                if text is None:
                    continue
                again = [without_place(each) for each in _records(_read(kit, text))]
                assert {one_document(kit, each, kit.options[0]) for each in again} <= {text}
                if not kit.is_loose:
                    assert [each.url for each in again] == [held.url]
                    assert [*map(_stated, again)] == [_stated(held)]

    @_of(is_written)
    def test_the_losses_of_the_samples_are_those_that_the_format_declares(
        self, kit: FormatKit
    ) -> None:
        target = kit.all_targets()[0]
        reported = {code for item in sample_items() for code in _reported(item, target)}
        declared = {row.name for row in loss_table(None, target)}
        assert reported == declared - kit.rare_losses

    @_of(is_written)
    def test_an_update_of_indexes_is_filtered_unless_the_format_keeps_everything(
        self, kit: FormatKit
    ) -> None:
        record = Record(url="", action=Action.UPDATE_INDEX)
        filtered = Filtered(code="update-index", url="", action="UPDATE_INDEX")
        expected = record if kit.format.keeps_everything else filtered
        assert adapt(record, Target(format=kit.name)) == ((expected,), ())

    @_of(has_places)
    def test_each_record_of_a_chunk_can_be_sent_alone(self, kit: FormatKit) -> None:
        document = kit.document
        expected = _records(_read(kit, document))
        places = kit.format.find_places(io.BytesIO(document), source="chunk")
        assert len(places) == len(expected)
        assert (places.first_url, places.last_url) == (expected[0].url, expected[-1].url)
        for number, record in enumerate(expected):
            piece = places.part(number, 1)
            data = document[piece.offset : piece.offset + piece.length]
            (again,) = _records(_read(kit, piece.head + data + piece.tail))
            assert without_place(again) == without_place(record)
            assert places.url_of(data) == record.url
            assert kit.record_of(record.url.rpartition("/")[2]).strip() in data
        assert places.line(0) <= places.line(1) <= places.line(2)

    @_of(has_places)
    def test_the_halves_of_a_chunk_have_its_records(self, kit: FormatKit) -> None:
        document = kit.start + b"".join(_framed(kit, 9)) + kit.tail
        places = kit.format.find_places(io.BytesIO(document), source="chunk")
        middle = places.middle(0, 9)
        assert 0 < middle < 9
        halves = [places.part(0, middle), places.part(middle, 9 - middle)]
        texts = [
            half.head + document[half.offset : half.offset + half.length] + half.tail
            for half in halves
        ]
        urls = [record.url for text in texts for record in _records(_read(kit, text))]
        assert urls == [record.url for record in _records(_read(kit, document))]
        assert len(urls) == 9


class FormatProperties(KitTests):
    """Tests of a format on random input: damage, losses of any record, and protection.

    `cases` documents are damaged, `examples` records are made. `properties` are checked of each
    reading, next to those of all formats.
    """

    cases: ClassVar[int] = 250
    seed: ClassVar[str] = "0"
    examples: ClassVar[int] = 200
    properties: ClassVar[Sequence[Property]] = ()
    memory_every: ClassVar[int] = 0
    """How often the memory of a case is measured, which takes several times as long; 0: never."""

    def seeds(self, kit: FormatKit) -> list[bytes]:
        """Return the documents that are damaged."""
        return kit.seeds(max_bytes=MAX_SEED_BYTES)

    @_of(is_read)
    def test_all_properties_hold_for_damaged_documents(self, kit: FormatKit) -> None:
        words = kit.words or (kit.record_of("1"),)
        mutator = Mutator(self.seeds(kit), words, random=Random(f"{kit.name} {self.seed}"))
        for number, data in enumerate(islice(mutator.cases(), self.cases)):
            more = [*self.properties]
            if self.memory_every and number % self.memory_every == 0:
                more.append(check_memory)
            try:
                check(kit, data, seed=number, more=more)
            except Violation as exc:
                raise AssertionError(f"case {number} of seed {self.seed}: {data!r}") from exc

    @_of(is_read)
    def test_all_properties_hold_for_hostile_streams(self, kit: FormatKit) -> None:
        def holds(data: bytes, seed: int) -> None:
            check(kit, data, seed=seed, more=self.properties)

        self._each(holds, hostile(kit), st.integers(0, 99))

    @_of(is_written)
    def test_outcomes_and_losses_of_any_record(self, kit: FormatKit) -> None:
        self._each(_check_outcomes, records(), st.sampled_from(kit.all_targets()))

    @_of(is_written)
    def test_a_deletion_of_a_document_has_no_refused_loss(self, kit: FormatKit) -> None:
        def holds(record: Record, target: Target) -> None:
            assert [loss for loss in adapt(record, target)[1] if loss.field in REFUSED] == []

        deletions = records(action=st.just(Action.DELETE))
        self._each(holds, deletions, st.sampled_from(kit.all_targets()))

    @_of(is_written)
    def test_a_protected_record_is_never_written_unprotected_without_a_loss(
        self, kit: FormatKit
    ) -> None:
        def holds(record: Record) -> None:
            for target in kit.all_targets():
                check_protection(record, kit, target)

        self._each(holds, protected_records())

    def _each(self, holds: Callable[..., None], *arguments: st.SearchStrategy[Any]) -> None:
        """Try a property on random arguments; no example has a limit of time."""
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        limits = settings(max_examples=self.examples, deadline=None, suppress_health_check=checks)
        limits(given(st.tuples(*arguments))(lambda given: holds(*given)))()


class FormatTests(FormatExamples, FormatProperties):
    """All tests of a format."""


def _check_outcomes(record: Record, target: Target) -> None:
    outcomes, losses = adapt(record, target)
    kept = [outcome for outcome in outcomes if isinstance(outcome, Record)]
    rejects = [outcome for outcome in outcomes if isinstance(outcome, Reject)]
    place = record.provenance
    format_ = FORMATS.find(target.format)

    assert outcomes
    assert format_ is not None
    assert [adapt(outcome, target) for outcome in kept] == [((outcome,), ()) for outcome in kept]
    assert [loss for loss in losses if loss.url != record.url] == []
    holds = format_.holds
    assert [name for outcome in kept for name in _stated(outcome) if name not in holds.fields] == []
    assert {outcome.action for outcome in kept} <= holds.actions
    assert [(r.source, r.span, r.line, r.offset, r.stage) for r in rejects] == [
        (place.source, place.span, place.line, place.offset, "adapt") for _ in rejects
    ]


def _stated(record: Record | Membership) -> set[str]:
    """The fields and hints that a record states; an ACL alone is written without the others."""
    if isinstance(record, Membership):
        return {"group", "members"}
    if is_alone(record):
        return {"acl"}
    values = asdict(record) | asdict(record.crawl or Crawl())
    names = {name for name, value in values.items() if value not in (None, ())}
    return names - {"url", "action", "arrival", "provenance", "crawl", "extras"}


def _read(kit: FormatKit, document: bytes) -> list[ReadResult]:
    stream, span = io.BytesIO(document), Span(source="f")
    return list(kit.format.read(stream, span=span, options=kit.options[0]))


def _records(results: Sequence[ReadResult]) -> list[Record | Membership]:
    return [item for item in results if isinstance(item, Record | Membership)]


def _framed(kit: FormatKit, count: int) -> list[bytes]:
    encoded = [kit.record_of(str(number)) for number in range(count)]
    return encoded if kit.record else [kit.encoder().frame(encoded)]


def _held(kit: FormatKit, item: Record | Membership, target: Target) -> list[Record | Membership]:
    """Return the parts of a sample that the format holds."""
    if isinstance(item, Membership) and not kit.format.holds.memberships:
        return []
    outcomes = _outcomes(item, target)
    return [each for each in outcomes if isinstance(each, Record | Membership)]


def _outcomes(item: Record | Membership, target: Target) -> Sequence[object]:
    if isinstance(item, Membership):
        return (adapt_membership(item, target),)
    return adapt(normalize(item), target)[0]


RESOLVED = "acl-inherits"
"""The reject of an ACL whose chain is not resolved; a step of each run resolves it before."""


def _reported(item: Record | Membership, target: Target) -> Iterator[str]:
    """Yield the losses of a record or group, and the codes of its rejects."""
    if isinstance(item, Record):
        yield from (loss.field for loss in adapt(normalize(item), target)[1])
    outcomes = _outcomes(item, target)
    codes = [each.code for each in outcomes if isinstance(each, Reject | Filtered)]
    yield from (code for code in codes if code != RESOLVED)
