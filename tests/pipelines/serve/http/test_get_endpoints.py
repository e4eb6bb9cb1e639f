from collections.abc import Iterator
from pathlib import Path

import pytest

from support.houses import House, get, refusal_of, said


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/getbacklogcount", b"7", "text/plain"),
        ("/", b"<html>", "text/html; charset=utf-8"),
        ("/feeds", b"<html>", "text/html; charset=utf-8"),
        (
            "/documents",
            b'{"documents":[],"next":null,"backlog":7,"set_aside":0}',
            "application/json",
        ),
        ("/set-aside", b'{"set_aside":[]}', "application/json"),
        ("/groups", b'{"groups":[],"next":null}', "application/json"),
    ],
)
def test_a_path_shows_what_it_has(path: str, body: bytes, kind: str, house: House) -> None:
    reply = house.doors().answer(get(path))
    assert (reply.status, reply.body, reply.content_type) == (200, body, kind)


def test_a_page_may_load_nothing_from_elsewhere(house: House) -> None:
    headers = dict(house.doors().answer(get("/")).headers)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_dtd_is_that_of_the_guide(house: House) -> None:
    assert b"<!ELEMENT gsafeed (header, group+)>" in said(house.doors().answer(get("/getdtd")))


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("/documents", "limit=0", "limit: '0'; expected 1 to 1000"),
        ("/documents", "limit=1001", "limit: '1001'; expected 1 to 1000"),
        ("/documents", "limit=0000010009", "limit: '0000010009'; expected 1 to 1000"),
        ("/documents", "limit=ten", "limit: 'ten'; expected 1 to 1000"),
        ("/groups", "limit=%D9%A1", "limit: '١'; expected 1 to 1000"),
        (
            "/documents",
            "limit=" + "9" * 5000,
            f"limit: {'9' * 5000!r}; expected 1 to 1000",
        ),
        ("/documents", "url=x", "'url'; expected one of datasource, prefix, after, limit"),
        ("/groups", "prefix=x", "'prefix'; expected one of groupsource, after, limit"),
        ("/documents", "words", "?words; expected name=value pairs"),
    ],
)
def test_a_query_that_is_none_is_told(path: str, query: str, words: str, house: House) -> None:
    assert refusal_of(house.doors(), get(path, query)) == (400, words)
