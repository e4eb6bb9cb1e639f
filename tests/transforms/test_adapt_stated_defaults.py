"""What a record states although it is the default is no loss in any target."""

import pytest
from msgspec.structs import replace

from schemas.acl import Acl
from schemas.record import Action, Arrival, Authmethod, Content, Crawl, History, Record
from transforms.adapt import Target, adapt
from transforms.formats import FORMATS

CONTENT_FEED = Target(format="gsa-feed", datasource="docs", feedtype="incremental")
TARGETS = [
    CONTENT_FEED,
    Target(format="gsa-feed", datasource="docs", feedtype="incremental", dialect="5.0"),
    Target(format="retriever-stream"),
    Target(format="thunderstone"),
]
CRAWLED = [
    Target(format="gsa-feed", datasource="docs", feedtype="metadata-and-url"),
    Target(format="gsa-feed", datasource="web", feedtype="incremental"),
    Target(format="lister-stream"),
]
FLAGS = ("lock", "crawl_immediately", "crawl_once", "secure", "no_index", "no_follow", "no_archive")
DEFAULTS = [
    *(replace(Crawl(), **{flag: False}) for flag in FLAGS),
    Crawl(authmethod=Authmethod.NONE),
    Crawl(display_url=""),
    replace(Crawl(authmethod=Authmethod.NONE, display_url=""), **dict.fromkeys(FLAGS, False)),
]


def document(**stated: object) -> Record:
    fields = {
        "url": "http://www.example.com/plan.html",
        "action": Action.ADD,
        "arrival": Arrival.PUSHED,
        "content": Content(b"<p>Plan</p>"),
        "mimetype": "text/html",
    }
    return Record(**(fields | stated))  # type: ignore[arg-type] # of many types


def name(value: object) -> str:
    if isinstance(value, Target):
        return " ".join(filter(None, (value.format, value.datasource, value.dialect)))
    return repr(value)


def test_every_format_of_documents_is_a_target_here() -> None:
    seen = {target.format for target in (*TARGETS, *CRAWLED)}

    written = {format_.name for format_ in FORMATS if format_.encoder}
    assert written - seen == {"avro", "native", "gsa-groups", "authorizer-stream"}


@pytest.mark.parametrize("target", TARGETS, ids=name)
@pytest.mark.parametrize("crawl", DEFAULTS, ids=name)
def test_a_hint_that_is_its_default_is_no_loss(crawl: Crawl, target: Target) -> None:
    assert adapt(document(crawl=crawl), target)[1] == ()


@pytest.mark.parametrize("target", CRAWLED, ids=name)
@pytest.mark.parametrize("crawl", DEFAULTS, ids=name)
def test_a_hint_that_is_its_default_is_no_loss_where_content_is_fetched(
    crawl: Crawl, target: Target
) -> None:
    record = Record(
        url="http://www.example.com/", action=Action.ADD, arrival=Arrival.CRAWLED, crawl=crawl
    )

    assert adapt(record, target)[1] == ()


@pytest.mark.parametrize("target", TARGETS, ids=name)
@pytest.mark.parametrize(
    "stated",
    [
        {"title": "", "description": "", "keywords": "", "categories": ("",)},
        {"body": ""},
        {"history": History(references=(), errors=())},
        {"overwrite_acls": True},
    ],
    ids=repr,
)
def test_what_states_nothing_is_no_loss(stated: dict[str, object], target: Target) -> None:
    assert adapt(document(**stated), target)[1] == ()


@pytest.mark.parametrize("stated", [{"title": ""}, {"keywords": ""}, {"overwrite_acls": True}])
def test_what_states_nothing_is_no_loss_in_a_listing(stated: dict[str, object]) -> None:
    record = document(content=None, arrival=Arrival.CRAWLED, mimetype=None, **stated)

    assert adapt(record, Target(format="lister-stream"))[1] == ()


def test_an_authmethod_of_none_is_no_loss_beside_an_acl() -> None:
    record = document(acl=Acl(), crawl=Crawl(authmethod=Authmethod.NONE))

    assert adapt(record, Target(format="retriever-stream"))[1] == ()


def test_a_hint_that_is_no_default_is_a_loss() -> None:
    record = document(crawl=Crawl(no_index=True, no_follow=False))

    assert [loss.field for loss in adapt(record, CONTENT_FEED)[1]] == ["no-index"]
