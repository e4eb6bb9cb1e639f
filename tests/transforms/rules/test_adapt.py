"""Rules that hold for every target."""

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action, Arrival, Authmethod, Content, Crawl, History, Record
from feedferry.transforms.formats import FORMATS, FeedOptions, by_name
from feedferry.transforms.rules.adapt import Target, adapt, adapter
from kits import KITS

TARGETS = [
    target
    for kit in KITS.values()
    if kit.format.encoder and kit.format.holds.actions
    for target in kit.all_targets()
]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        adapter(Target(format="csv"))

    names = ", ".join(format_.name for format_ in FORMATS)
    assert str(caught.value) == f"'csv'; expected one of {names}"


# Values that state the default

CONTENT_FEED = Target(format="gsa-feed", datasource="docs", feedtype="incremental")
OF_URLS = [
    target
    for target in TARGETS
    if by_name(target.format).is_fetched_by_target(
        datasource=target.datasource, feedtype=target.feedtype
    )
]
OF_CONTENT = [  # formats that only declare what they hold count an empty category as a loss
    target
    for target in TARGETS
    if target not in OF_URLS
    and by_name(target.format).adapter
    and by_name(target.format).holds.fields & {"content", "body"}
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
        return " ".join(
            filter(
                None,
                (value.format, value.datasource, value.feedtype, value.of(FeedOptions).dialect),
            )
        )
    return repr(value)


@pytest.mark.parametrize("target", [*OF_CONTENT, *OF_URLS], ids=name)
@pytest.mark.parametrize("crawl", DEFAULTS, ids=name)
def test_a_hint_that_states_its_default_is_no_loss(crawl: Crawl, target: Target) -> None:
    record = document()
    if target in OF_URLS:
        record = document(content=None, arrival=Arrival.CRAWLED, mimetype=None)

    assert adapt(replace(record, crawl=crawl), target)[1] == adapt(record, target)[1]


@pytest.mark.parametrize("target", OF_CONTENT, ids=name)
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
def test_an_empty_value_is_no_loss(stated: dict[str, object], target: Target) -> None:
    assert adapt(document(**stated), target)[1] == adapt(document(), target)[1]


@pytest.mark.parametrize("stated", [{"title": ""}, {"keywords": ""}, {"overwrite_acls": True}])
def test_an_empty_value_is_no_loss_in_a_listing(stated: dict[str, object]) -> None:
    record = document(content=None, arrival=Arrival.CRAWLED, mimetype=None, **stated)
    assert adapt(record, Target(format="lister-stream"))[1] == ()


def test_an_authmethod_of_none_is_no_loss_next_to_an_acl() -> None:
    record = document(acl=Acl(), crawl=Crawl(authmethod=Authmethod.NONE))
    assert adapt(record, Target(format="retriever-stream"))[1] == ()


def test_a_hint_that_is_not_the_default_is_a_loss() -> None:
    record = document(crawl=Crawl(no_index=True, no_follow=False))
    assert [loss.field for loss in adapt(record, CONTENT_FEED)[1]] == ["no-index"]
