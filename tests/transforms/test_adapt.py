"""What holds for every target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from schemas.notice import REFUSED
from schemas.record import Action, Record
from schemas.reject import Filtered, Reject
from support.strategies import records
from transforms.adapt import Target, adapt, adapter

TARGETS = [
    Target(format="avro"),
    Target(format="native"),
    Target(format="thunderstone"),
    Target(format="thunderstone", wide_deletes=True, named_fields=(("author", "Author"),)),
    Target(format="gsa-feed", datasource="docs", feedtype="incremental"),
    Target(format="gsa-feed", datasource="docs", feedtype="full", default_mimetype="text/html"),
    Target(format="gsa-feed", datasource="docs", feedtype="metadata-and-url"),
    Target(format="gsa-feed", datasource="web", feedtype="incremental"),
    Target(format="gsa-feed", datasource="docs", feedtype="incremental", dialect="5.0"),
    Target(format="gsa-feed", datasource="web", feedtype="incremental", dialect="5.0"),
    Target(format="lister-stream"),
    Target(format="retriever-stream"),
    Target(format="authorizer-stream"),
    Target(format="gsa-feed", empty_metadata="placeholder", known_urls=("http://a.example.com/",)),
]
targets = st.sampled_from(TARGETS)


@pytest.mark.slow
@given(records(), targets)
def test_every_record_has_an_outcome(record: Record, target: Target) -> None:
    assert len(adapt(record, target)[0]) >= 1


@pytest.mark.slow
@given(records(), targets)
def test_an_outcome_is_adapted_already(record: Record, target: Target) -> None:
    kept = [outcome for outcome in adapt(record, target)[0] if isinstance(outcome, Record)]

    assert [adapt(outcome, target) for outcome in kept] == [((outcome,), ()) for outcome in kept]


@pytest.mark.slow
@given(records(), targets)
def test_every_loss_names_the_url_and_a_detail(record: Record, target: Target) -> None:
    assert [loss for loss in adapt(record, target)[1] if loss.url != record.url] == []


@pytest.mark.slow
@given(records(), targets)
def test_a_reject_says_where_its_record_was_read(record: Record, target: Target) -> None:
    rejects = [outcome for outcome in adapt(record, target)[0] if isinstance(outcome, Reject)]
    where = record.provenance

    assert [(r.source, r.span, r.line, r.offset, r.stage) for r in rejects] == [
        (where.source, where.span, where.line, where.offset, "adapt") for _ in rejects
    ]


@pytest.mark.slow
@given(records(action=st.just(Action.DELETE)), targets)
def test_a_deletion_of_a_document_is_never_refused(record: Record, target: Target) -> None:
    losses = adapt(record, target)[1]

    assert [loss for loss in losses if loss.field in REFUSED] == []


@pytest.mark.parametrize("name", ["avro", "native"])
def test_what_holds_everything_gets_the_record_itself(name: str) -> None:
    record = Record(url="", action=Action.UPDATE_INDEX)

    assert adapt(record, Target(format=name)) == ((record,), ())


@pytest.mark.parametrize(
    "name",
    ["authorizer-stream", "gsa-feed", "lister-stream", "retriever-stream", "thunderstone"],
)
def test_an_update_of_indexes_is_filtered(name: str) -> None:
    record = Record(url="", action=Action.UPDATE_INDEX)

    assert adapt(record, Target(format=name)) == (
        (Filtered(code="update-index", url="", action="UPDATE_INDEX"),),
        (),
    )


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        adapter(Target(format="csv"))

    assert str(caught.value) == (
        "'csv'; expected one of gsa-feed, thunderstone, lister-stream, retriever-stream,"
        " authorizer-stream, gsa-groups, groups-csv, avro, native"
    )
