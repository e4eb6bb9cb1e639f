"""Comparisons of histories, and feeds that make one of another."""

import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.pipelines.compare.feed_of_changes import (
    full_where_known,
    incremental,
    write_archives,
)
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Content, Encoding, Meta, Record
from feedferry.schemas.span import Span
from feedferry.transforms.compare.comparison import Change, Comparer, Difference
from feedferry.transforms.formats import AVRO, ReadOptions, ReadResult
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from support.feed_histories import PostedFeed, feeds, results


@contextmanager
def comparing(
    before: Iterable[ReadResult], after: Iterable[ReadResult], *, is_updated: bool = False
) -> Iterator[Comparer]:
    """A comparison of two inputs, not done yet."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Comparer(Path(folder), is_updated=is_updated)) as comparer,
    ):
        comparer.add_before(before)
        comparer.add_after(after)
        yield comparer


def differences(before: Iterable[ReadResult], after: Iterable[ReadResult]) -> list[Difference]:
    with comparing(before, after) as comparer:
        comparer.compare()
        return list(comparer.differences())


def read_archives(paths: Iterable[Path]) -> list[ReadResult]:
    return [
        result
        for path in paths
        for result in AVRO.read(io.BytesIO(path.read_bytes()), span=Span(source=path.name))
    ]


def document(name: str, **fields: object) -> Record:
    values = {"action": Action.ADD, "content": Content(b"text"), **fields}
    return Record(url=f"http://www.example.com/{name}", **values)  # type: ignore[arg-type]


PERMIT = Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),))


def test_documents_are_added_removed_and_changed_and_changed_acls_come_first() -> None:
    before = [document("gone"), document("same"), document("title", title="old"), document("acl")]
    after = [
        document("new"),
        document("same"),
        document("title", title="new"),
        document("acl", acl=PERMIT),
    ]
    found = differences(before, after)
    assert [(row.url.rpartition("/")[2], row.change) for row in found] == [
        ("acl", Change.CHANGED),
        ("new", Change.ADDED),
        ("gone", Change.REMOVED),
        ("title", Change.CHANGED),
    ]
    assert [field.text for row in found for field in row.fields] == [
        'acl: - → {"permit":["user Default:joe"]}',
        'title: "old" → "new"',
    ]


def test_contents_are_compared_decoded() -> None:
    plain, encoded = Content(b"text"), Content(b"dGV4dA==", Encoding.BASE64)
    assert differences([document("a", content=plain)], [document("a", content=encoded)]) == []


def test_the_order_of_metadata_of_different_names_is_no_difference() -> None:
    pairs = (Meta("a", "1"), Meta("b", "2"))
    before, after = (document("a", metadata=metadata) for metadata in (pairs, pairs[::-1]))
    assert differences([before], [after]) == []


def test_a_parent_is_the_same_as_url_and_fragment_and_as_the_url_that_an_appliance_gets() -> None:
    stated = Acl(inherit_from="http://adaptor.example.com/doc/", inherit_fragment="all folders")
    sent = Acl(inherit_from="http://adaptor.example.com/doc/?all%20folders")
    assert differences([document("a", acl=stated)], [document("a", acl=sent)]) == []


def test_fragments_of_a_url_with_a_query_differ() -> None:
    first, second = (
        Acl(inherit_from="http://adaptor.example.com/doc?id=1", inherit_fragment=fragment)
        for fragment in ("one", "two")
    )
    (found,) = differences([document("a", acl=first)], [document("a", acl=second)])
    assert found.changes_acl


def test_members_of_groups_are_compared() -> None:
    group = Member(name="staff", scope=Scope.GROUP)
    ann, bob = (Member(name=name, scope=Scope.USER) for name in ("ann", "bob"))
    (found,) = differences(
        [Membership(group=group, members=(ann,))], [Membership(group=group, members=(bob, ann))]
    )
    assert [field.text for field in found.fields] == [
        'members: ["user Default:ann"] → ["user Default:ann","user Default:bob"]'
    ]


def test_groups_and_members_are_compared_without_blanks_around_their_names() -> None:
    stated, padded = (
        Membership(
            group=Member(name=f"{blank}staff{blank}", scope=Scope.GROUP, namespace=namespace),
            members=(Member(name=f"ann{blank}", scope=Scope.USER),),
        )
        for blank, namespace in (("", "Default"), (" ", None))
    )
    assert differences([stated], [padded]) == []


def test_a_question_mark_in_a_deletion_by_pattern_is_a_wildcard() -> None:
    pattern = document("d?r/*", action=Action.DELETE_PATTERN, content=None)
    found = differences(
        [document("dir/1"), document("other")], [document("dir/1"), document("other"), pattern]
    )
    assert [(row.url, row.change) for row in found] == [
        ("http://www.example.com/dir/1", Change.REMOVED)
    ]


def test_rejects_of_an_input_are_a_finding() -> None:
    surrogate = document("a\udcff")
    with comparing([surrogate], []) as comparer:
        counts = comparer.compare()
    assert counts.before.rejects == {"not-unicode": 1}
    assert counts.has_findings


def test_the_archive_of_a_feed_is_read_in_batches(tmp_path: Path) -> None:
    documents = [document(f"{number}", title=f"{number}") for number in range(100)]
    with comparing((), documents) as comparer:
        comparer.compare()
        [path] = write_archives(comparer, documents, tmp_path, feedtype=incremental)
    options = ReadOptions(batch_records=1024)
    with path.open("rb") as stream:
        results = [*AVRO.read(stream, span=Span(source=path.name), options=options)]
    assert sum(len(batch.order) for batch in results if isinstance(batch, RecordBatch)) > 50


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(feeds(), max_size=3), st.lists(feeds(), max_size=3), st.booleans())
def test_a_feed_of_the_differences_makes_the_second_history_of_the_first(
    before: list[PostedFeed], after: list[PostedFeed], is_updated: bool
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        comparing(results(before), results(after), is_updated=is_updated) as comparer,
    ):
        comparer.compare()
        paths = write_archives(
            comparer,
            results(after),
            Path(folder),
            feedtype=incremental,
        )
        emitted = read_archives(paths)
    assert differences([*results(before), *emitted], results(after)) == []


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(feeds(), max_size=4))
def test_a_compacted_history_makes_the_same_documents(history: list[PostedFeed]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        comparing((), results(history)) as comparer,
    ):
        comparer.compare()
        paths = write_archives(
            comparer,
            results(history),
            Path(folder),
            feedtype=full_where_known(comparer),
        )
        compacted = read_archives(paths)
    assert differences(compacted, results(history)) == []
    assert len(compacted) == len({record.url for record in compacted if isinstance(record, Record)})
