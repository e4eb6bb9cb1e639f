"""The endpoints of a receiver: who is trusted, what is stored, and what is answered."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from msgspec.structs import replace as changed

from feedferry.pipelines.serve.http.endpoints import Endpoints
from feedferry.pipelines.serve.http.server import ConnectionDroppedError, Request
from feedferry.pipelines.serve.rehearsal.scenario import Behaviour, Reset
from support.endpoints import (
    DATA,
    FEED,
    GROUPS,
    ITEMS,
    ONE_STATUS,
    SETTINGS,
    StoredEndpoints,
    body_of,
    get,
    post,
    refusal_of,
)
from support.receivers import deliveries, kept

DISK_FULL = b"Feed not accepted due to insufficient disk space. Contact Google for Work Support."


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredEndpoints]:
    stored = StoredEndpoints(tmp_path)
    yield stored
    stored.close()
    assert list((tmp_path / "incoming").iterdir()) == []


UNTRUSTED = b"Error - Unauthorized Request"
NOT_ALLOWED = ONE_STATUS.format("Not Allowed").encode()
LATER = "x-forwarded-for"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (post("/xmlfeed", FEED, client="10.2.0.1"), UNTRUSTED),
        (post("/xmlgroups", GROUPS, client="10.2.0.1"), UNTRUSTED),
        (get("/getbacklogcount", client="10.2.0.1"), UNTRUSTED),
        (get("/getdtd", client="10.2.0.1"), UNTRUSTED),
        (post("/recvdata.xml", DATA, client="10.2.0.1"), NOT_ALLOWED),
        (post("/recvdata.xml", DATA, (LATER, "10.1.0.9"), client="10.2.0.1"), NOT_ALLOWED),
        (post("/recvdata.xml", DATA, (LATER, "10.1.0.9, 8.8.8.8"), client="10.1.0.1"), NOT_ALLOWED),
        (post("/recvdata.xml", DATA, (LATER, ""), client="10.1.0.1"), NOT_ALLOWED),
    ],
)
def test_an_untrusted_client_gets_the_words_of_the_appliance(
    request_: Request, words: bytes, stored: StoredEndpoints
) -> None:
    reply = stored.endpoints(trusted=("10.1.0.0/16",)).answer(request_)
    assert (reply.status, body_of(reply)) == (200, words)
    assert deliveries(stored.folder) == []


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (post("/recvdata.xml", DATA, (LATER, "10.1.0.9"), client="10.1.0.1"), b"<Status>OK<"),
        (post("/xmlfeed", FEED, (LATER, "8.8.8.8"), client="10.1.0.1"), b"Success"),
        (get("/getdtd", client="10.1.0.1"), b"<!ELEMENT gsafeed (header, group+)>"),
        (get("/gsafeed.dtd", client="10.1.0.1"), b"<!ELEMENT gsafeed (header, group+)>"),
    ],
)
def test_a_trusted_client_is_served(
    request_: Request, words: bytes, stored: StoredEndpoints
) -> None:
    assert words in body_of(stored.endpoints(trusted=("10.1.0.0/16",)).answer(request_))


PATHS = (
    "/xmlfeed, /xmlgroups, /getbacklogcount, /getdtd, /gsafeed.dtd, /documents, /set-aside, / or "
    ".../recvdata.xml"
)


@pytest.mark.parametrize(
    ("request_", "changes", "expected"),
    [
        (get("/nowhere"), {}, (404, f"'/nowhere'; expected {PATHS}")),
        (get("/", client="8.8.8.8"), {}, (403, "8.8.8.8; expected a trusted address")),
        (
            changed(post("/xmlfeed", FEED), length=1_000_000_000),
            {},
            (413, "a body of 1000000000 bytes or more; expected less than 1000000000"),
        ),
        (
            changed(post("/xmlfeed", FEED), length=None),
            {"max_request_bytes": 48},
            (413, "a body of 48 bytes or more; expected less than 48"),
        ),
        (
            changed(post("/xmlfeed", ""), headers=()),
            {},
            (411, "no Content-Length; expected it, or chunks"),
        ),
        (
            post("/xmlfeed", FEED, ("content-encoding", "br")),
            {},
            (415, "Content-Encoding: 'br'; expected gzip or none"),
        ),
        *(
            (
                get("/documents", f"limit={limit}"),
                {},
                (400, f"limit: {shown!r}; expected 1 to 1000"),
            )
            for limit, shown in (*((x, x) for x in ("0", "1001", "9" * 5000)), ("%D9%A1", "١"))
        ),
        (get("/documents", "url=x"), {}, (400, "'url'; expected one of datasource, after, limit")),
        (get("/documents", "words"), {}, (400, "?words; expected name=value pairs")),
        *(
            (
                changed(get("/documents"), headers=(("host", host),)),
                {},
                (403, f"Host: {host!r}; expected an address, or localhost"),
            )
            for host in ("evil.example", "evil.example:19900", "127.0.0.1.evil.example")
        ),
    ],
    ids=lambda value: value.path if isinstance(value, Request) else "",
)
def test_a_request_is_refused(
    stored: StoredEndpoints,
    request_: Request,
    changes: dict[str, object],
    expected: tuple[int, str],
) -> None:
    assert refusal_of(stored.endpoints(**changes), request_) == expected  # type: ignore[arg-type]
    assert deliveries(stored.folder) == []


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        (get("/xmlfeed"), "POST"),
        (get("/xmlgroups"), "POST"),
        (get("/documents", method="DELETE"), "GET, HEAD"),
    ],
)
def test_an_endpoint_has_its_methods(
    stored: StoredEndpoints, request_: Request, allowed: str
) -> None:
    reply = stored.endpoints().answer(request_)
    assert (reply.status, reply.headers) == (405, (("Allow", allowed),))


def test_scripted_reply_follows_the_body_and_stores_nothing(stored: StoredEndpoints) -> None:
    behaviour = Behaviour(status=503, text="later", delay=2.5)
    request = post("/xmlfeed", FEED)
    reply = stored.endpoints(behaviour).answer(request)
    assert (reply.status, reply.body, reply.content_type) == (503, b"later", "text/plain")
    assert stored.waited == [2.5]
    assert (list(request.blocks), deliveries(stored.folder)) == ([], [])


def test_a_reset_at_once_leaves_the_body(stored: StoredEndpoints) -> None:
    request = post("/xmlfeed", FEED)
    with pytest.raises(ConnectionDroppedError):
        stored.endpoints(Behaviour(reset="at-once")).answer(request)
    assert list(request.blocks) == [FEED.encode()]


def test_a_reset_in_the_body_leaves_half_of_it(stored: StoredEndpoints) -> None:
    blocks = iter([b"datasource=s&", b"feedtype=full&", b"data=a"])
    request = changed(post("/xmlfeed", FEED), length=33, blocks=blocks)
    with pytest.raises(ConnectionDroppedError):
        stored.endpoints(Behaviour(reset="in-body")).answer(request)
    assert (list(blocks), deliveries(stored.folder)) == ([b"data=a"], [])


@pytest.mark.parametrize("reset", ["at-once", "in-body", "before-reply"])
def test_a_request_without_a_body_can_be_reset(reset: Reset, stored: StoredEndpoints) -> None:
    with pytest.raises(ConnectionDroppedError):
        stored.endpoints(Behaviour(reset=reset)).answer(get("/getbacklogcount"))


@pytest.mark.parametrize(
    ("host", "listens_on"),
    [
        ("", "127.0.0.1"),
        ("127.0.0.1:19900", "127.0.0.1"),
        ("[::1]:19900", "127.0.0.1"),
        ("10.1.2.3", "127.0.0.1"),
        ("localhost:1", "127.0.0.1"),
        ("gsa.example.com:19900", "::"),
    ],
)
def test_the_page_is_shown_for_an_address_or_a_bare_name_or_in_public(
    host: str, listens_on: str, stored: StoredEndpoints
) -> None:
    request = changed(get("/"), headers=(("host", host),))
    reply = stored.endpoints(host=listens_on).answer(request)
    headers = dict(reply.headers)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert (reply.status, headers["X-Content-Type-Options"]) == (200, "nosniff")


@pytest.mark.parametrize(
    ("behaviour", "body"),
    [
        (Behaviour(backlog=5000), b"5000"),
        (Behaviour(status=404, text="not here"), b"not here"),
        (Behaviour(), b"7"),
    ],
)
def test_scenario_replaces_the_backlog(
    behaviour: Behaviour, body: bytes, stored: StoredEndpoints
) -> None:
    assert stored.endpoints(behaviour).answer(get("/getbacklogcount")).body == body


def test_scenario_counts_only_trusted_requests(stored: StoredEndpoints) -> None:
    asked: list[str] = []

    def behave(endpoint: str) -> Behaviour:
        asked.append(endpoint)
        return Behaviour(status=200, text="")

    endpoints = Endpoints(
        SETTINGS, stored.spool, stored.index, stored.cluster, stored.callbacks(behave)
    )
    for request in (
        *(post("/xmlfeed", FEED), post("/xmlgroups", GROUPS), post("/x/recvdata.xml", DATA)),
        *(get("/getbacklogcount"), post("/xmlfeed", FEED, client="8.8.8.8"), get("/documents")),
    ):
        endpoints.answer(request)
    assert asked == ["xmlfeed", "xmlgroups", "recvdata", "getbacklogcount"]


def test_a_feed_is_kept_and_then_answered(stored: StoredEndpoints) -> None:
    reply = stored.endpoints().answer(post("/xmlfeed", FEED, ("user-agent", "Java/1.8")))
    assert (reply.status, reply.body, reply.content_type) == (200, b"Success", "text/plain")
    (kept,) = deliveries(stored.folder)
    assert (kept.endpoint, kept.datasource, kept.feedtype, kept.bytes) == (
        "xmlfeed",
        "s",
        "full",
        10,
    )
    assert (kept.client, kept.user_agent) == ("127.0.0.1", "Java/1.8")
    assert stored.arrivals == 1


@pytest.mark.parametrize(
    ("body", "feedtype"),
    [
        (f"{GROUPS}&feedtype=full", "full"),
        (GROUPS, "incremental"),
        ("replace=s&data=%3Cxmlgroups%2F%3E", "replace"),
        ("cleanup=s", "cleanup"),
    ],
)
def test_groups_are_stored(stored: StoredEndpoints, body: str, feedtype: str) -> None:
    assert stored.endpoints().answer(post("/xmlgroups", body)).body == b"Success"
    feed = b"" if feedtype == "cleanup" else b"<xmlgroups/>"
    assert (kept(stored.folder), stored.arrivals) == ([("s", feedtype, feed)], 1)


A_NAME = "expected a letter or _, then letters, digits, _ and -, at most 250"
SOURCES = "expected one of groupsource, cleanup, replace"
FEEDTYPES = "expected full or incremental or metadata-and-url"
WEB = "feedtype=metadata-and-url"
NO_WEB = "'metadata-and-url'; expected full or incremental"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/xmlfeed", "feedtype=full&data=a", f"datasource: not given; {A_NAME}"),
        ("/xmlfeed", "datasource=s&feedtype=FULL&data=a", f"feedtype: 'FULL'; {FEEDTYPES}"),
        ("/xmlfeed", "datasource=s&feedtype=full", "data: empty; expected a feed"),
        ("/xmlgroups", "feedtype=full&data=a", f"no groupsource; {SOURCES}"),
        ("/xmlgroups", "groupsource=s&replace=s&data=a", f"groupsource and replace; {SOURCES}"),
        ("/xmlgroups", "groupsource=9&data=a", f"groupsource: '9'; {A_NAME}"),
        ("/xmlgroups", f"groupsource=s&{WEB}&data=a", f"feedtype: {NO_WEB}"),
        ("/xmlgroups", "cleanup=s&data=a", "cleanup and data; expected one of them"),
    ],
)
def test_invalid_form_is_refused(path: str, body: str, words: str, stored: StoredEndpoints) -> None:
    assert refusal_of(stored.endpoints(), post(path, body)) == (400, words)
    assert (deliveries(stored.folder), stored.arrivals) == ([], 0)


def test_each_item_of_thunderstone_data_is_answered(stored: StoredEndpoints) -> None:
    reply = stored.endpoints().answer(post("/texis/dowalk/recvdata.xml", DATA))
    assert reply.content_type == "text/xml"
    assert body_of(reply) == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b"<ThunderstoneReplicationResult>\n"
        b"<ItemResult><rid>000000000</rid><Type>I</Type><Status>OK</Status></ItemResult>\n"
        b"<ItemResult><rid>000000000</rid><Type>D</Type><Status>OK</Status>"
        b"<Info>Not found</Info></ItemResult>\n"
        b"<Rows>2</Rows>\n"
        b"<Version>Version 5.01.0 20051010 (feedferry, modelled on the manual)\n"
        b"2005-10-10 12:34:56</Version>\n"
        b"</ThunderstoneReplicationResult>\n"
    )
    (delivery,) = deliveries(stored.folder)
    assert (delivery.endpoint, delivery.profile, delivery.datasource) == ("recvdata", "p", "")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (f"data={quote_plus(ITEMS)}", "No Profile"),
        (f"profile=&data={quote_plus(ITEMS)}", "No Profile"),
        (f"profile=other&data={quote_plus(ITEMS)}", "No Profile"),
        ("profile=p", "NODATA"),
        ("profile=p&data=", "NODATA"),
        ("profile=p&data=words", "NODATA"),
        ("profile=p&data=%3CThunderstoneReplication%2F%3E", "NODATA"),
    ],
)
def test_invalid_data_has_one_status(body: str, status: str, stored: StoredEndpoints) -> None:
    reply = stored.endpoints(profiles=("p", "q")).answer(post("/recvdata.xml", body))
    assert (body_of(reply).decode(), reply.content_type) == (ONE_STATUS.format(status), "text/xml")
    assert deliveries(stored.folder) == []


@pytest.mark.parametrize("path", ["/xmlfeed", "/xmlgroups"])
def test_full_disk_is_reported_in_the_appliances_words(path: str, stored: StoredEndpoints) -> None:
    request = changed(post(path, FEED), length=999_999_999)
    monster = stored.spool.free_bytes - 999_999_999 + (1 << 30)
    stored.spool._min_free_bytes = monster
    reply = stored.endpoints().answer(request)
    assert (reply.status, reply.body) == (200, DISK_FULL)
    assert next(request.blocks) == FEED.encode(), "nothing of it was read"
    stored.spool._min_free_bytes = 1 << 60
    reply = stored.endpoints().answer(post("/recvdata.xml", DATA))
    assert body_of(reply).decode() == ONE_STATUS.format("FAIL")


@pytest.mark.parametrize(
    "content",
    [
        '<record url="http://h/?a=1&amp;b=2" mimetype="text/html"/>',
        "<record mimetype='text/html' url='http://h/?a=1&amp;b=2' />",
    ],
)
def test_feed_with_a_refused_url_is_malformed(content: str, stored: StoredEndpoints) -> None:
    behaviour = Behaviour(refuse_urls=("http://h/none", "http://h/?a=1&b=2"))
    feed = f"<gsafeed><header/><group>{content}</group></gsafeed>"
    body = f"datasource=s&feedtype=full&data={quote_plus(feed)}"
    assert refusal_of(stored.endpoints(behaviour), post("/xmlfeed", body)) == (
        400,
        "malformed feed: 'http://h/?a=1&b=2'; expected a feed without it",
    )
    assert deliveries(stored.folder) == []


def test_a_refused_url_of_thunderstone_data_fails_alone(stored: StoredEndpoints) -> None:
    behaviour = Behaviour(refuse_urls=("http://h/2",))
    reply = body_of(stored.endpoints(behaviour).answer(post("/recvdata.xml", DATA)))
    assert reply.count(b"<Status>OK</Status>") == 1
    assert reply.count(b"<Status>FAIL</Status>") == 1
    assert deliveries(stored.folder)[0].refused == ("http://h/2",)


NO_DOCUMENTS = b'{"documents":[],"next":null,"backlog":7,"failed":0,"set_aside":0}'


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/getbacklogcount", b"7", "text/plain"),
        ("/", b"<html>", "text/html; charset=utf-8"),
        ("/documents", NO_DOCUMENTS, "application/json"),
        ("/set-aside", b'{"set_aside":[]}', "application/json"),
    ],
)
def test_path_has_its_content(path: str, body: bytes, kind: str, stored: StoredEndpoints) -> None:
    reply = stored.endpoints().answer(get(path))
    assert (reply.status, reply.body, reply.content_type) == (200, body, kind)


def test_each_delivery_is_logged_in_one_line(
    stored: StoredEndpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    endpoints = stored.endpoints(trusted=("10.1.0.0/16", "127.0.0.1"))
    endpoints.answer(post("/xmlfeed", FEED, client="10.1.0.1"))
    body_of(endpoints.answer(post("/texis/recvdata.xml", DATA)))
    endpoints.answer(post("/xmlfeed", FEED, client="8.8.8.8"))
    refusal_of(endpoints, post("/xmlfeed", "datasource=s&feedtype=some&data=a"))
    endpoints.answer(get("/"))
    lines = [re.sub(r", 0\.\d{3} s$", "", record.getMessage()) for record in caplog.records]
    assert lines == [
        "10.1.0.1 /xmlfeed datasource=s feedtype=full bytes=10: 200 Success",
        f"127.0.0.1 /texis/recvdata.xml profile=p bytes={len(ITEMS)}: 200",
        "8.8.8.8 /xmlfeed: 200 Error - Unauthorized Request",
        "127.0.0.1 /xmlfeed datasource=s feedtype=some bytes=1: 400 feedtype: 'some'; expected full"
        " or incremental or metadata-and-url",
    ]
