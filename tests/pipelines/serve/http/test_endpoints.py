import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pipelines.serve.http.endpoints import Doors
from pipelines.serve.http.exchange import Request, TornError
from pipelines.serve.http.get_endpoints import Lookups
from pipelines.serve.http.post_endpoints import Posts
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.scenario import Behaviour
from pipelines.serve.spool_writer import Spool
from schemas.delivery import Door
from schemas.errors import ConfigError
from support.houses import (
    DATA,
    FEED,
    GROUPS,
    ONE_STATUS,
    SETTINGS,
    House,
    get,
    post,
    refusal_of,
    said,
)
from support.receivers import deliveries, kept


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.mark.parametrize("path", ["/xmlfeed", "/xmlgroups"])
def test_who_is_not_trusted_is_told_in_the_appliances_words(path: str, house: House) -> None:
    reply = house.doors(trusted=("10.1.",)).answer(post(path, FEED, client="10.2.0.1"))
    assert (reply.status, reply.body) == (200, b"Error - Unauthorized Request")
    assert deliveries(house.folder) == []


def test_who_is_no_cluster_member_is_not_allowed(house: House) -> None:
    reply = house.doors(trusted=("10.1.",)).answer(post("/recvdata.xml", DATA, client="10.2.0.1"))
    assert (reply.status, said(reply).decode()) == (200, ONE_STATUS.format("Not Allowed"))


@pytest.mark.parametrize(
    ("chain", "status"),
    [("10.1.0.9", "OK"), ("10.1.0.9, 8.8.8.8", "Not Allowed"), ("", "Not Allowed")],
)
def test_all_proxies_of_thunderstone_data_must_be_trusted(
    chain: str, status: str, house: House
) -> None:
    request = post("/recvdata.xml", DATA, ("x-forwarded-for", chain), client="10.1.0.1")
    assert f"<Status>{status}<".encode() in said(house.doors(trusted=("10.1.",)).answer(request))


def test_several_headers_of_proxies_are_one_chain(house: House) -> None:
    both = (("x-forwarded-for", "10.1.0.9"), ("x-forwarded-for", "8.8.8.8"))
    request = post("/recvdata.xml", DATA, *both, client="10.1.0.1")
    assert b"<Status>Not Allowed<" in said(house.doors(trusted=("10.1.",)).answer(request))


def test_a_proxy_that_is_not_trusted_does_not_become_so_by_what_it_forwards(house: House) -> None:
    request = post("/recvdata.xml", DATA, ("x-forwarded-for", "10.1.0.9"), client="8.8.8.8")
    assert b"<Status>Not Allowed<" in said(house.doors(trusted=("10.1.",)).answer(request))


def test_a_feedergate_does_not_care_about_proxies(house: House) -> None:
    request = post("/xmlfeed", FEED, ("x-forwarded-for", "8.8.8.8"))
    assert house.doors().answer(request).body == b"Success"


@pytest.mark.parametrize("path", ["/getbacklogcount", "/getdtd"])
def test_who_is_not_trusted_learns_nothing_of_the_feedergate(path: str, house: House) -> None:
    assert house.doors().answer(get(path, client="8.8.8.8")).body == b"Error - Unauthorized Request"


@pytest.mark.parametrize("path", ["/", "/feeds", "/documents", "/groups"])
def test_pages_are_for_who_is_trusted(path: str, house: House) -> None:
    assert refusal_of(house.doors(), get(path, client="8.8.8.8")) == (
        403,
        "8.8.8.8; expected a trusted address",
    )


def test_a_list_of_trust_that_is_none_is_told_before_anything_begins(house: House) -> None:
    with pytest.raises(ConfigError, match="--trust: 'x'; expected an address"):
        house.doors(trusted=("x",))


@pytest.mark.parametrize("path", ["/nowhere", "/xmlfeed/", "/recvdata.xml/", "*", "", "/../etc"])
def test_where_nothing_is_is_told(path: str, house: House) -> None:
    assert refusal_of(house.doors(), get(path)) == (
        404,
        f"{path!r}; expected /xmlfeed, /xmlgroups, /getbacklogcount, /getdtd, /documents, /groups, "
        "/set-aside, /feeds, / or .../recvdata.xml",
    )


@pytest.mark.parametrize("path", ["/xmlfeed", "/xmlgroups", "/any/recvdata.xml"])
def test_a_door_for_feeds_takes_only_post(path: str, house: House) -> None:
    reply = house.doors().answer(get(path))
    assert (reply.status, reply.body, reply.headers) == (
        405,
        b"expected POST",
        (("Allow", "POST"),),
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_page_takes_only_get(method: str, house: House) -> None:
    reply = house.doors().answer(get("/documents", method=method))
    assert (reply.status, reply.headers) == (405, (("Allow", "GET, HEAD"),))


def test_a_page_may_be_asked_for_its_head(house: House) -> None:
    assert house.doors().answer(get("/getbacklogcount", method="HEAD")).body == b"7"


def test_a_gigabyte_is_refused_before_it_comes(house: House) -> None:
    request = msgspec.structs.replace(post("/xmlfeed", FEED), length=1_000_000_000)
    assert refusal_of(house.doors(), request) == (
        413,
        "a body of 1000000000 bytes or more; expected less than 1000000000",
    )


def test_chunks_are_counted_while_they_come(house: House) -> None:
    request = msgspec.structs.replace(post("/xmlfeed", FEED), length=None)
    assert refusal_of(house.doors(max_request_bytes=48), request) == (
        413,
        "a body of 48 bytes or more; expected less than 48",
    )


def test_a_post_without_a_length_is_refused(house: House) -> None:
    request = msgspec.structs.replace(post("/xmlfeed", ""), headers=())
    assert refusal_of(house.doors(), request) == (
        411,
        "no Content-Length; expected it, or chunks",
    )


def test_an_encoding_that_is_not_known_is_refused(house: House) -> None:
    request = post("/xmlfeed", FEED, ("content-encoding", "br"))
    assert refusal_of(house.doors(), request)[0] == 415


def test_a_scripted_answer_is_given_when_all_was_read_and_nothing_is_kept(house: House) -> None:
    behaviour = Behaviour(status=503, text="Internal Error", content_type="text/html")
    request = post("/xmlfeed", FEED)
    reply = house.doors(behaviour).answer(request)
    assert (reply.status, reply.body, reply.content_type) == (503, b"Internal Error", "text/html")
    assert (list(request.blocks), deliveries(house.folder)) == ([], [])


def test_a_scripted_delay_is_waited_for(house: House) -> None:
    house.doors(Behaviour(delay_seconds=2.5)).answer(post("/xmlfeed", FEED))
    assert house.waited == [2.5]


def test_a_slow_scenario_reads_slowly(house: House) -> None:
    house.doors(Behaviour(bytes_per_second=10)).answer(post("/xmlfeed", FEED))
    assert house.waited == [4.8]


def test_a_connection_torn_at_once_leaves_the_body_alone(house: House) -> None:
    request = post("/xmlfeed", FEED)
    with pytest.raises(TornError):
        house.doors(Behaviour(tear="at-once")).answer(request)
    assert list(request.blocks) == [FEED.encode()]


def test_a_connection_torn_in_the_body_leaves_half_of_it(house: House) -> None:
    blocks = iter([b"datasource=s&", b"feedtype=full&", b"data=a"])
    request = msgspec.structs.replace(post("/xmlfeed", FEED), length=33, blocks=blocks)
    with pytest.raises(TornError):
        house.doors(Behaviour(tear="in-body")).answer(request)
    assert (list(blocks), deliveries(house.folder)) == ([b"data=a"], [])


@pytest.mark.parametrize("request_", [get("/getbacklogcount"), post("/xmlfeed", "")])
def test_a_request_without_a_body_is_torn_at_once(request_: Request, house: House) -> None:
    with pytest.raises(TornError):
        house.doors(Behaviour(tear="in-body")).answer(request_)


@pytest.mark.parametrize("host", ["", "127.0.0.1:19900", "[::1]:19900", "10.1.2.3", "localhost:1"])
def test_a_page_is_shown_to_who_has_an_address_or_a_bare_name(host: str, house: House) -> None:
    request = msgspec.structs.replace(get("/documents"), headers=(("host", host),))
    assert house.doors().answer(request).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:19900", "127.0.0.1.evil.example"])
def test_a_page_of_this_machine_is_not_shown_under_a_name_from_elsewhere(
    host: str, house: House
) -> None:
    request = msgspec.structs.replace(get("/documents"), headers=(("host", host),))
    words = f"Host: {host!r}; expected an address, or localhost"
    assert refusal_of(house.doors(), request) == (403, words)


def test_a_page_is_shown_under_any_name_to_those_that_the_receiver_is_open_to(house: House) -> None:
    request = msgspec.structs.replace(get("/"), headers=(("host", "gsa.example.com:19900"),))
    assert house.doors(host="::").answer(request).status == 200


def test_a_connection_torn_before_the_reply_has_delivered(house: House) -> None:
    with pytest.raises(TornError):
        house.doors(Behaviour(tear="before-reply")).answer(post("/xmlfeed", FEED))
    assert kept(house.folder) == [("s", "full", b"<gsafeed/>")]


@pytest.mark.parametrize(
    ("behaviour", "body"),
    [
        (Behaviour(backlog=5000), b"5000"),
        (Behaviour(status=404, text="not here"), b"not here"),
        (Behaviour(), b"7"),
    ],
)
def test_the_backlog_is_what_the_scenario_says(
    behaviour: Behaviour, body: bytes, house: House
) -> None:
    assert house.doors(behaviour).answer(get("/getbacklogcount")).body == body


@pytest.mark.parametrize("tear", ["at-once", "before-reply"])
def test_a_question_for_the_backlog_may_be_torn(tear: str, house: House) -> None:
    behaviour = msgspec.convert({"tear": tear}, Behaviour)
    with pytest.raises(TornError):
        house.doors(behaviour).answer(get("/getbacklogcount"))


def test_a_scenario_is_asked_once_for_each_request_of_who_is_trusted(tmp_path: Path) -> None:
    asked: list[Door | None] = []

    def behave(door: Door | None) -> Behaviour:
        asked.append(door)
        return Behaviour(status=200, text="")

    with Spool(tmp_path) as spool, Index(tmp_path / "index.db") as index:
        posts = Posts(spool, index, arrived=lambda: None)
        lookups = Lookups(index, backlog=lambda: 0, show=lambda: b"")
        wait = threading.Event().wait
        doors = Doors(SETTINGS, posts, lookups, behave=behave, wait=wait)
        doors.answer(post("/xmlfeed", FEED))
        doors.answer(post("/xmlgroups", GROUPS))
        doors.answer(post("/x/recvdata.xml", DATA))
        doors.answer(get("/getbacklogcount"))
        doors.answer(post("/xmlfeed", FEED, client="8.8.8.8"))
        doors.answer(get("/documents"))
    assert asked == [Door.FEED, Door.GROUPS, Door.DATA, None]
