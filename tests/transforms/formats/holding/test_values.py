"""Attribute values that the specifications do not allow: kept, with a notice, and never sent."""

import io
import random
from importlib.resources import files

import pytest
from lxml import etree

from feedferry.schemas.feed import Feed
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import Action, Content, Extra, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import (
    FeedOptions,
    Format,
    ReadOptions,
    WriteOptions,
    by_name,
    registered,
)
from feedferry.transforms.formats.base import StatedValue
from feedferry.transforms.formats.holding.values import is_absolute, notices
from feedferry.transforms.inspect import count
from feedferry.transforms.rules.adapt import Target, adapt
from feedferry.transforms.rules.normalize import normalize

NOBODY = "acl-permits-nobody"
URL = "http://www.example.com/a"
CONTENT_FEED = Target(format="gsa-feed", datasource="wiki", feedtype="incremental")
OLD_FEED = Target(
    format="gsa-feed", datasource="wiki", feedtype="incremental", own=(FeedOptions(dialect="5.0"),)
)
WEB_FEED = Target(format="gsa-feed", datasource="web", feedtype="metadata-and-url")
THUNDERSTONE = Target(format="thunderstone")
ARCHIVE = Target(format="jsonl")
APPLIANCES = (CONTENT_FEED, OLD_FEED, WEB_FEED, THUNDERSTONE)


def read_record(attributes: str, *, acl: str = "") -> Record:
    """Read a record with these attributes from a content feed."""
    text = (
        "<gsafeed><header><datasource>wiki</datasource><feedtype>incremental</feedtype></header>"
        f'<group><record url="{URL}" mimetype="text/plain" {attributes}>'
        f"{acl}<content>text</content></record></group></gsafeed>"
    )
    stream = io.BytesIO(text.encode())
    [record] = by_name("gsa-feed").read(stream, span=Span(source="feed.xml"), options=ReadOptions())
    assert isinstance(record, Record)
    return record


def test_the_values_of_a_format_of_another_package_are_reported() -> None:
    values = {"page/@rating": StatedValue("modified", "rating", "a number of stars")}
    pages = Format(name="pages", title="pages", values=lambda: values)
    record = Record(url=URL, action=Action.ADD, extras=(Extra("page/@rating", "good"),))
    detail = "page/@rating='good'; expected a number of stars"
    with registered(pages):
        assert [(notice.code, notice.detail) for notice in notices(record)] == [
            ("rating-value", detail)
        ]
    assert [*notices(record)] == []


@pytest.mark.parametrize(
    ("attributes", "code", "detail"),
    [
        ('pagerank="67"', "pagerank-value", "pagerank=67; expected an integer from 68 to 100"),
        ('pagerank="999"', "pagerank-value", "pagerank=999; expected an integer from 68 to 100"),
        (
            'pagerank="high"',
            "pagerank-value",
            "record/@pagerank='high'; expected an integer from 68 to 100",
        ),
        ('feedrank="0"', "feedrank-value", "feedrank=0; expected an integer from 1 to 100"),
        ('feedrank="101"', "feedrank-value", "feedrank=101; expected an integer from 1 to 100"),
        ('lock="TRUE"', "lock-value", "record/@lock='TRUE'; expected true or false"),
        ('last-modified="soon"', "modified-value", "record/@last-modified='soon'; expected a date"),
        (
            'authmethod="kerberos"',
            "authmethod-value",
            "record/@authmethod='kerberos'; expected none, httpbasic, ntlm, httpsso or negotiate",
        ),
        ('scoring="best"', "scoring-value", "record/@scoring='best'; expected content or web"),
    ],
)
def test_a_value_that_is_not_allowed_is_kept_and_noted(
    attributes: str, code: str, detail: str
) -> None:
    record = read_record(attributes)
    [notice] = notices(record)
    assert (notice.code, notice.detail) == (code, detail)
    assert notice.message.startswith("feed.xml (byte ")
    for target, result in ((ARCHIVE, "kept as it is"), (CONTENT_FEED, "not written")):
        [notice] = notices(record, adapt(record, target)[0])
        assert notice.detail == f"{detail}; {result}"


@pytest.mark.parametrize(
    "attributes",
    [
        *('pagerank="68"', 'pagerank="100"', 'feedrank="1"', 'feedrank="100"', 'lock="true"'),
        *('last-modified="Tue, 15 Nov 1994 12:45:26 GMT"', 'authmethod="ntlm"', 'unknown="1"'),
    ],
)
def test_a_value_that_is_allowed_is_not_noted(attributes: str) -> None:
    assert list(notices(read_record(attributes))) == []


@pytest.mark.parametrize("target", [CONTENT_FEED, OLD_FEED, THUNDERSTONE])
@pytest.mark.parametrize(
    ("attributes", "fields"),
    [
        ('pagerank="67"', ["pagerank"]),
        ('pagerank="high"', ["pagerank"]),
        ('feedrank="101"', ["feedrank"]),
        ('lock="TRUE"', ["lock"]),
        ('crawl-once="1"', ["crawl-once"]),
        ('last-modified="soon"', ["modified"]),
        ('scoring="best"', ["scoring"]),
        ('authmethod="kerberos"', ["acl", "authmethod"]),  # it is also a loss of protection
    ],
)
def test_a_value_that_is_not_allowed_is_a_loss_of_its_field(
    target: Target, attributes: str, fields: list[str]
) -> None:
    [adapted], losses = adapt(read_record(attributes), target)

    assert isinstance(adapted, Record)
    assert sorted(loss.field for loss in losses) == fields
    assert (adapted.crawl, adapted.extras) == (None, ())


def test_an_item_that_states_a_date_twice_has_no_doubtful_date() -> None:
    text = (
        f"<ThunderstoneReplication><Item><Type>I</Type><Url>{URL}</Url><Body>a</Body>"
        "<Modified>2005-10-25 15:25:18</Modified><Modified>2006-10-25 15:25:18</Modified></Item>"
        f"<Item><Type>I</Type><Url>{URL}</Url><Body>a</Body><Modified>soon</Modified></Item>"
        "</ThunderstoneReplication>"
    )
    options = ReadOptions(zone="UTC")
    results = by_name("thunderstone").read(io.BytesIO(text.encode()), span=Span(), options=options)
    first, second = (result for result in results if isinstance(result, Record))

    assert [notice.code for notice in notices(first)] == []
    assert [notice.code for notice in notices(second)] == ["modified-value"]


@pytest.mark.parametrize("target", APPLIANCES)
@pytest.mark.parametrize("action", [Action.ADD, Action.UPDATE, Action.DELETE])
@pytest.mark.parametrize(
    "url", ["doc1", "/a/b", "//www.example.com/a", "www.example.com/a", "a:b", "http:///a"]
)
def test_no_appliance_is_sent_a_url_that_is_not_absolute(
    target: Target, action: Action, url: str
) -> None:
    record = Record(url=url, action=action, mimetype="text/plain", content=Content(b"text"))
    [reject], losses = adapt(record, target)

    assert isinstance(reject, Reject)
    assert (reject.code, losses) == ("url-not-absolute", ())
    assert reject.message.endswith(
        f"url={url!r}; expected an absolute URL, as in http://host/path: --base-url completes"
        " document ids and paths"
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://a/",
        "HTTPS://a",
        "googleconnector://wiki.localhost/doc?docid=1",
        "file:///a",
        "smb://a/b",
    ],
)
def test_urls_of_any_scheme_are_absolute(url: str) -> None:
    assert is_absolute(url)


DOUBTFUL_URLS = (
    *("http://intranet/x", "HTTPS://intranet:8080/a.b", "http://intranet./", "http://localhost"),
    *("http://10.0.0.1/x", "https://0.0.0.0:3000", "http://[::1]/a.b", "http://a b.example.com/"),
    *("http://www.example.com/a b", "http://www.example.com/a\tb"),
)


@pytest.mark.parametrize("url", DOUBTFUL_URLS)
def test_a_url_that_no_appliance_can_serve_is_noted_unless_it_is_deleted(url: str) -> None:
    [notice] = notices(Record(url=url, action=Action.UPDATE))
    assert (notice.code, notice.detail) == (
        "url-doubtful",
        f"url={url!r}; expected a host name with a dot, not an IP address, and no blank:"
        " --urls strict rejects such URLs",
    )
    assert list(notices(Record(url=url, action=Action.DELETE))) == []


@pytest.mark.parametrize(
    "url",
    [
        *("http://www.example.com", "HTTPS://365.Example.com:8080/a?b=http://intranet/"),
        *(
            "http://10.example.com/",
            "https://tim@www.example.com/",
            "http://b\u00fccher.example.com/\u00e9",
        ),
        *("googleconnector://wiki.localhost/doc?docid=a b", "smb://server/a b", "a document id"),
    ],
)
def test_other_urls_and_those_of_other_schemes_are_not_noted(url: str) -> None:
    assert list(notices(Record(url=url, action=Action.ADD))) == []


@pytest.mark.parametrize(
    ("acl", "codes"),
    [
        ('<acl><principal scope="user" access="permit"> </principal></acl>', [NOBODY]),
        ('<acl><principal scope="user" access="deny">tim</principal></acl>', [NOBODY]),
        ("<acl/>", [NOBODY]),
        ('<acl inherit-from="http://www.example.com/"/>', []),
        ('<acl><principal scope="group" access="permit">all</principal></acl>', []),
        (
            '<acl url="http://www.example.com/b">'
            '<principal scope="user" access="permit">tim</principal></acl>',
            ["acl-url"],
        ),
    ],
)
def test_an_acl_that_permits_no_user_or_is_of_another_url_is_noted(
    acl: str, codes: list[str]
) -> None:
    record = normalize(read_record("", acl=acl))
    assert [notice.code for notice in notices(record)] == codes
    assert count([read_record("", acl=acl)]).acls.barred == codes.count(NOBODY)


_RANKS = ("-1", "0", "1", "67", "68", "100", "101", "99999", "", " 70 ", "high")
_BOOLEANS = ("true", "false", "TRUE", "1", "")
_ATTRIBUTES = {
    "pagerank": _RANKS,
    "feedrank": _RANKS,
    "lock": _BOOLEANS,
    "crawl-immediately": _BOOLEANS,
    "crawl-once": _BOOLEANS,
    "authmethod": ("none", "httpbasic", "ntlm", "httpsso", "negotiate", "NTLM", "kerberos", ""),
    "scoring": ("content", "web", "Web", ""),
    "last-modified": ("Tue, 15 Nov 1994 12:45:26 GMT", "1994-11-15", "soon", ""),
}


@pytest.mark.parametrize(("target", "dialect"), [(CONTENT_FEED, "7"), (OLD_FEED, "5")])
def test_what_is_written_is_valid_by_the_dtd_and_in_range(target: Target, dialect: str) -> None:
    with files("feedferry.schemas").joinpath(f"gsafeed-{dialect}.dtd").open("rb") as stream:
        dtd = etree.DTD(stream)
    feed = Feed(datasource="wiki", feedtype="incremental")
    encoder = by_name("gsa-feed").make_encoder(WriteOptions(feed=feed, own=target.own))
    random_choice = random.Random(0)
    written = []
    for _ in range(1000):
        names = random_choice.sample(sorted(_ATTRIBUTES), 3)
        stated = {name: random_choice.choice(_ATTRIBUTES[name]) for name in names}
        text = " ".join(f'{name}="{value}"' for name, value in stated.items())
        [record], _ = adapt(read_record(text), target)
        assert isinstance(record, Record)
        written.append(encoder.encode(record))
    root = etree.fromstring(encoder.prolog() + encoder.frame(written) + encoder.epilog())

    dtd.validate(root)
    assert list(dtd.error_log) == []
    assert {int(rank) for rank in root.xpath("//@pagerank")} <= set(range(68, 101))
    assert {int(rank) for rank in root.xpath("//@feedrank")} <= set(range(1, 101))
    assert not any("soon" in date or date == "" for date in root.xpath("//@last-modified"))


def test_a_group_passes_its_doubtful_rank_on() -> None:
    text = (
        "<gsafeed><header><datasource>wiki</datasource><feedtype>incremental</feedtype></header>"
        f'<group pagerank="10"><record url="{URL}" mimetype="text/plain">'
        "<content>text</content></record></group></gsafeed>"
    )
    [record] = by_name("gsa-feed").read(
        io.BytesIO(text.encode()), span=Span(), options=ReadOptions()
    )
    assert isinstance(record, Record)
    [loss] = adapt(record, CONTENT_FEED)[1]
    assert loss == Loss(
        field="pagerank", url=URL, detail="pagerank=10; expected an integer from 68 to 100"
    )
