from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import msgspec
import pytest

from pipelines.serve.http import post_endpoints as taking
from pipelines.serve.rehearsal.scenario import Behaviour
from schemas.delivery import Door
from support.houses import DATA, FEED, GROUPS, ITEMS, ONE_STATUS, House, post, refusal_of, said
from support.receivers import deliveries, kept

DISK_FULL = b"Feed not accepted due to insufficient disk space. Contact Google for Work Support."


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()
    assert list((tmp_path / "incoming").iterdir()) == []


def test_a_feed_is_kept_and_then_answered(house: House) -> None:
    reply = house.doors().answer(post("/xmlfeed", FEED, ("user-agent", "Java/1.8")))
    assert (reply.status, reply.body, reply.content_type) == (200, b"Success", "text/plain")
    (delivery,) = deliveries(house.folder)
    assert (delivery.door, delivery.datasource, delivery.feedtype, delivery.bytes) == (
        Door.FEED,
        "s",
        "full",
        10,
    )
    assert (delivery.client, delivery.user_agent) == ("127.0.0.1", "Java/1.8")
    assert house.arrivals == 1


def test_nobody_looks_whether_a_feed_is_one(house: House) -> None:
    reply = house.doors().answer(post("/xmlfeed", "datasource=s&feedtype=full&data=%3Ctorn"))
    assert reply.body == b"Success"


def test_groups_are_kept(house: House) -> None:
    reply = house.doors().answer(post("/xmlgroups", f"{GROUPS}&feedtype=full"))
    assert reply.body == b"Success"
    assert kept(house.folder) == [("s", "full", b"<xmlgroups/>")]


def test_groups_without_a_feedtype_are_incremental(house: House) -> None:
    house.doors().answer(post("/xmlgroups", GROUPS))
    assert kept(house.folder) == [("s", "incremental", b"<xmlgroups/>")]


def test_groups_may_replace_those_of_their_source(house: House) -> None:
    house.doors().answer(post("/xmlgroups", "replace=s&data=%3Cxmlgroups%2F%3E"))
    assert kept(house.folder) == [("s", "replace", b"<xmlgroups/>")]


def test_a_cleanup_has_no_feed(house: House) -> None:
    reply = house.doors().answer(post("/xmlgroups", "cleanup=s"))
    assert reply.body == b"Success"
    assert kept(house.folder) == [("s", "cleanup", b"")]
    assert (house.arrivals, deliveries(house.folder)[0].path) == (1, None)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (
            "/xmlfeed",
            "feedtype=full&data=a",
            "datasource: not given; expected a letter or _, then letters, digits, _ and -, "
            "at most 250",
        ),
        (
            "/xmlfeed",
            "datasource=../s&feedtype=full&data=a",
            "datasource: '../s'; expected a letter or _, then letters, digits, _ and -, "
            "at most 250",
        ),
        (
            "/xmlfeed",
            "datasource=s&data=a",
            "feedtype: ''; expected full or incremental or metadata-and-url",
        ),
        (
            "/xmlfeed",
            "datasource=s&feedtype=FULL&data=a",
            "feedtype: 'FULL'; expected full or incremental or metadata-and-url",
        ),
        ("/xmlfeed", "datasource=s&feedtype=full", "data: nothing; expected a feed"),
        ("/xmlfeed", "datasource=s&feedtype=full&data=", "data: nothing; expected a feed"),
        (
            "/xmlgroups",
            "feedtype=full&data=a",
            "no groupsource; expected one of groupsource, cleanup, replace",
        ),
        (
            "/xmlgroups",
            "groupsource=s&replace=s&data=a",
            "groupsource and replace; expected one of groupsource, cleanup, replace",
        ),
        (
            "/xmlgroups",
            "groupsource=9&data=a",
            "groupsource: '9'; expected a letter or _, then letters, digits, _ and -, at most 250",
        ),
        (
            "/xmlgroups",
            "groupsource=s&feedtype=metadata-and-url&data=a",
            "feedtype: 'metadata-and-url'; expected full or incremental",
        ),
        ("/xmlgroups", "cleanup=s&data=a", "cleanup and data; expected one of them"),
        ("/xmlgroups", "groupsource=s", "data: nothing; expected a feed"),
        ("/xmlfeed", "datasource=s&datasource=s", "datasource: given twice; expected it once"),
    ],
)
def test_what_no_appliance_takes_is_refused(path: str, body: str, words: str, house: House) -> None:
    assert refusal_of(house.doors(), post(path, body)) == (400, words)
    assert (deliveries(house.folder), house.arrivals) == ([], 0)


@pytest.mark.parametrize("name", ["_", "a" * 250, "A-9_b"])
def test_a_datasource_of_these_letters_is_one(name: str, house: House) -> None:
    body = f"datasource={name}&feedtype=full&data=a"
    assert house.doors().answer(post("/xmlfeed", body)).body == b"Success"


def test_a_datasource_of_more_letters_is_none(house: House) -> None:
    body = f"datasource={'a' * 251}&feedtype=full&data=a"
    assert refusal_of(house.doors(), post("/xmlfeed", body))[0] == 400


def test_groups_beyond_the_capacity_are_refused_in_the_appliances_words(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.index, "groups_bytes", lambda: 999_999_989)
    reply = house.doors().answer(post("/xmlgroups", GROUPS))
    assert (reply.status, reply.body) == (200, b"error: group db at capacity.")
    assert deliveries(house.folder) == []


def test_groups_up_to_the_capacity_are_taken(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.index, "groups_bytes", lambda: 999_999_988)
    assert house.doors().answer(post("/xmlgroups", GROUPS)).body == b"Success"


def test_each_item_of_thunderstone_data_is_answered(house: House) -> None:
    reply = house.doors().answer(post("/texis/dowalk/recvdata.xml", DATA))
    assert reply.content_type == "text/xml"
    assert said(reply) == (
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
    (delivery,) = deliveries(house.folder)
    assert (delivery.door, delivery.profile, delivery.datasource) == (Door.DATA, "p", "")


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
def test_data_that_is_none_has_one_status(body: str, status: str, house: House) -> None:
    reply = house.doors(profiles=("p", "q")).answer(post("/recvdata.xml", body))
    assert (said(reply).decode(), reply.content_type) == (ONE_STATUS.format(status), "text/xml")
    assert deliveries(house.folder) == []


def test_any_profile_exists_if_none_is_named(house: House) -> None:
    body = DATA.replace("profile=p", "profile=..%2Fany%20one")
    said(house.doors().answer(post("/recvdata.xml", body)))
    assert deliveries(house.folder)[0].profile == "../any one"


@pytest.mark.parametrize("path", ["/xmlfeed", "/xmlgroups"])
def test_a_full_disk_is_told_in_the_appliances_words(path: str, house: House) -> None:
    request = msgspec.structs.replace(post(path, FEED), length=999_999_999)
    monster = house.spool.free_bytes - 999_999_999 + (1 << 30)
    house.spool._min_free_bytes = monster
    reply = house.doors().answer(request)
    assert (reply.status, reply.body) == (200, DISK_FULL)
    assert next(request.blocks) == FEED.encode(), "nothing of it was read"


def test_a_full_disk_is_a_failure_of_thunderstone_data(house: House) -> None:
    house.spool._min_free_bytes = 1 << 60
    reply = house.doors().answer(post("/recvdata.xml", DATA))
    assert said(reply).decode() == ONE_STATUS.format("FAIL")


@pytest.mark.parametrize(
    "content",
    [
        '<record url="http://h/?a=1&amp;b=2"/>',
        "<record url='http://h/?a=1&amp;b=2' />",
        "<Url> http://h/?a=1&amp;b=2 </Url>",
    ],
)
def test_a_feed_that_holds_a_refused_url_is_malformed(content: str, house: House) -> None:
    behaviour = Behaviour(refuse_urls=frozenset({"http://h/none", "http://h/?a=1&b=2"}))
    body = f"datasource=s&feedtype=full&data={quote_plus(content)}"
    assert refusal_of(house.doors(behaviour), post("/xmlfeed", body)) == (
        400,
        "malformed feed: 'http://h/?a=1&b=2'; expected a feed without it",
    )
    assert deliveries(house.folder) == []


def test_a_refused_url_is_found_where_two_blocks_meet(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "_LOOK_BYTES", 3)
    body = "datasource=s&feedtype=full&data=%3Crecord+url%3D%22http://h/1%22/%3E"
    behaviour = Behaviour(refuse_urls=frozenset({"http://h/1"}))
    assert refusal_of(house.doors(behaviour), post("/xmlfeed", body))[0] == 400


def test_a_feed_with_a_longer_url_is_taken(house: House) -> None:
    body = "datasource=s&feedtype=full&data=%3Crecord+url%3D%22http://h/10%22/%3E"
    behaviour = Behaviour(refuse_urls=frozenset({"http://h/1"}))
    assert house.doors(behaviour).answer(post("/xmlfeed", body)).body == b"Success"


def test_a_refused_url_of_thunderstone_data_fails_alone(house: House) -> None:
    behaviour = Behaviour(refuse_urls=frozenset({"http://h/2"}))
    reply = said(house.doors(behaviour).answer(post("/recvdata.xml", DATA)))
    assert reply.count(b"<Status>OK</Status>") == 1
    assert reply.count(b"<Status>FAIL</Status>") == 1
    assert deliveries(house.folder)[0].refused == ("http://h/2",)
