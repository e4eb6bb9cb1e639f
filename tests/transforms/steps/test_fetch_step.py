"""The step `fetch`: documents of URLs, in order, within limits, and what it refuses."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action, Arrival, Content, Crawl, Meta, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.steps import AppliedSteps, StepResult, read_steps
from feedferry.transforms.steps.fetch_rules import FetchRules
from feedferry.transforms.steps.fetch_step import FetchStep
from support.rehearsal import gsa_feed
from support.web_site import NO_ROBOTS, Answer, Answers, Request, web_site

LOCAL = "networks: 127.0.0.0/8"
RULES = FetchRules(networks=("127.0.0.0/8", "::1"), robots="ignore")


def answers(stated: dict[str, Answer]) -> Answers:
    return lambda request: stated.get(request.path, NO_ROBOTS)


def page(url: str, **fields: Any) -> Record:
    return Record(url=url, action=Action.ADD, arrival=Arrival.CRAWLED, **fields)


def steps(folder: Path, *entries: str) -> AppliedSteps:
    path = folder / "steps.yaml"
    path.write_text("transform:\n" + "".join(f"- {entry}\n" for entry in entries))
    return opened(read_steps(path).make())


def opened(applied: AppliedSteps) -> AppliedSteps:
    """Close steps after the test."""
    _OPENED.append(applied)
    return applied


_OPENED: list[AppliedSteps] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _OPENED:
        _OPENED.pop().close()


def impatient(rules: FetchRules = RULES, pauses: list[float] | None = None) -> AppliedSteps:
    """Return the step with pauses that take no time."""
    sleep = [] if pauses is None else pauses
    return opened(AppliedSteps([("fetch", FetchStep(rules, sleep=sleep.append))]))


def result(applied: AppliedSteps, record: Record) -> StepResult:
    (made,) = applied.apply(record)
    return made


def code(made: StepResult) -> str:
    assert isinstance(made, Filtered | Reject)
    return made.code


def test_a_url_becomes_a_document_with_the_type_charset_and_date_of_its_server(
    tmp_path: Path,
) -> None:
    stated = {"Content-Type": "text/plain; charset=ISO-8859-1"}
    date = {"Last-Modified": "Tue, 06 Nov 2007 12:45:26 GMT"}
    texts = {
        "/a": Answer(b"Gr\xfc\xdfe", headers=stated | date),
        "/b.pdf": Answer(b"%PDF-1.7", headers={"Content-Type": "application/octet-stream"}),
    }
    applied = steps(tmp_path, f"fetch: {{{LOCAL}}}")
    acl, metadata = Acl(), (Meta("a", "b"),)
    with web_site(answers(texts)) as site:
        record = page(f"{site.url}/a", acl=acl, metadata=metadata)
        assert result(applied, record) == Record(
            url=f"{site.url}/a",
            action=Action.ADD,
            arrival=Arrival.PUSHED,
            content=Content(b"Gr\xfc\xdfe"),
            mimetype="text/plain",
            charset="iso-8859-1",
            modified=datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC),
            acl=acl,
            metadata=metadata,
        )
        pdf = result(applied, page(f"{site.url}/b.pdf"))
        assert isinstance(pdf, Record)
        for name, kept in (("web", None), ("docs", "docs")):
            at = Provenance(source="f", line=3, datasource=name, feedtype="metadata-and-url")
            fetched = result(applied, page(f"{site.url}/a", provenance=at))
            assert isinstance(fetched, Record)
            feed = Provenance(source="f", line=3, datasource=kept, feedtype="incremental")
            assert fetched.provenance == feed
        assert pdf.mimetype == "application/pdf"
        others = [
            page(f"{site.url}/a", content=Content(b"has one")),
            Record(url=f"{site.url}/a", action=Action.DELETE),
            page("doc:1"),
        ]
        assert [result(applied, other) for other in others] == others
        assert site.paths == ["/robots.txt", "/a", "/b.pdf", "/a", "/a"]


def test_documents_are_fetched_in_parallel_with_bounds_and_leave_in_order(tmp_path: Path) -> None:
    three_are_under_way = Barrier(3)

    def answer(request: Request) -> Answer:
        number = int(request.path[1:])
        if number < 3:
            three_are_under_way.wait(timeout=60)
        return Answer(request.path.encode(), seconds=0.02 * (number % 3))

    applied = steps(
        tmp_path,
        "metadata: {set: {a: b}}",
        f"fetch: {{{LOCAL}, robots: ignore, parallel: 6, per_host: 3}}",
        "metadata: {set: {c: d}}",
    )
    taken = 0
    with web_site(answer) as site:
        port = site.url.rpartition(":")[2]
        hosts = [f"127.0.0.1:{port}", f"127.0.0.2:{port}"]
        urls = [f"http://{hosts[0]}/{number}" for number in range(40)]

        def pages() -> Any:
            nonlocal taken
            for url in urls:
                taken += 1
                yield page(url)
                yield "another result"

        made = []
        for item in applied.ahead(pages()):
            if isinstance(item, Record):
                made.append(result(applied, item))
                assert taken - len(made) <= 12
        applied.close()
        assert [item.url for item in made] == urls
        contents = [item.content for item in made if isinstance(item, Record)]
        assert contents == [Content(f"/{number}".encode()) for number in range(40)]
        assert site.peaks[hosts[0]] == 3
        assert applied.changed == {"metadata": 40, "fetch": 40, "metadata-2": 40}


def test_unchanged_documents_are_filtered_but_not_in_a_full_feed(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        return Answer(b"text", status=304 if request.since or request.etag else 200)

    at = datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC)
    applied = steps(tmp_path, f"fetch: {{{LOCAL}, robots: ignore, conditional: true}}")
    with web_site(answer) as site:
        full = Provenance(feedtype="full")
        records = [
            page(f"{site.url}/a", modified=at),
            page(f"{site.url}/b", metadata=(Meta("ETag", '"x"'),)),
            page(f"{site.url}/c"),
            page(f"{site.url}/d", modified=at, provenance=full),
        ]
        made = [result(applied, record) for record in records]
        assert [type(item) for item in made] == [Filtered, Filtered, Record, Record]
        assert code(made[0]) == "unchanged"
        sent = [(request.since, request.etag) for request in site.requests]
        assert sent == [("Tue, 06 Nov 2007 12:45:26 GMT", None), (None, '"x"'), *[(None, None)] * 2]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (404, "fetch-gone"),
        (410, "fetch-gone"),
        (401, "fetch-denied"),
        (500, "fetch-failed"),
        (304, "fetch-failed"),
        (204, "fetch-failed"),
    ],
)
def test_other_responses_are_rejects(status: int, expected: str) -> None:
    with web_site(lambda request: Answer(status=status)) as site:
        applied = impatient()
        made = result(applied, page(f"{site.url}/a?token=secret"))
        assert isinstance(made, Reject)
        assert code(made) == expected
        assert f"'{site.url}/a': {status}" in made.reason
        assert "secret" not in made.reason


def test_a_document_that_is_gone_is_deleted_when_asked(tmp_path: Path) -> None:
    applied = steps(tmp_path, f"fetch: {{{LOCAL}, robots: ignore, gone: delete}}")
    with web_site(lambda request: Answer(status=410)) as site:
        url = f"{site.url}/a"
        assert result(applied, page(url)) == Record(url=url, action=Action.DELETE)


def test_temporary_errors_are_tried_again_after_the_time_that_the_server_asks_for() -> None:
    pauses: list[float] = []
    left = [Answer(status=429, headers={"Retry-After": "7"}), Answer(status=503), Answer(b"text")]
    with web_site(lambda request: left.pop(0)) as site:
        applied = impatient(pauses=pauses)
        assert isinstance(result(applied, page(f"{site.url}/a")), Record)
    assert len(pauses) == 2
    assert pauses[0] == 7.0


def test_limits_of_time_and_size_are_kept(tmp_path: Path) -> None:
    texts = {"/slow": Answer(b"x", seconds=1.0), "/large": Answer(b"x" * 2000)}
    entry = f"{LOCAL}, robots: ignore, max_bytes: 1000B, attempts: 1"
    with web_site(answers(texts)) as site:
        in_time = steps(tmp_path, f"fetch: {{{entry}, timeout: 200ms}}")
        slow = result(in_time, page(f"{site.url}/slow"))
        large = result(steps(tmp_path, f"fetch: {{{entry}}}"), page(f"{site.url}/large"))
        assert isinstance(slow, Reject)
        assert "not complete within 0.2 s" in slow.reason
        assert code(large) == "content-too-large"


def test_robots_are_obeyed_unless_overruled(tmp_path: Path) -> None:
    robots = b"User-agent: feedferry\nDisallow: /private\n"
    texts = {
        "/robots.txt": Answer(robots),
        "/private": Answer(b"secret"),
        "/open": Answer(b"open"),
        "/link": Answer(status=302, headers={"Location": "/private"}),
    }
    with web_site(answers(texts)) as site:
        applied = steps(tmp_path, f"fetch: {{{LOCAL}}}")
        codes = [code(result(applied, page(f"{site.url}{path}"))) for path in ("/private", "/link")]
        assert codes == ["fetch-robots"] * 2
        assert isinstance(result(applied, page(f"{site.url}/open")), Record)
        assert site.paths == ["/robots.txt", "/link", "/open"]
        overruled = steps(tmp_path, f"fetch: {{{LOCAL}, robots: ignore}}")
        assert isinstance(result(overruled, page(f"{site.url}/private")), Record)


def test_robots_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    robots = Answer(b"\xef\xbb\xbfUser-agent: *\nDisallow: /private\n")
    with web_site(answers({"/robots.txt": robots, "/private": Answer(b"secret")})) as site:
        applied = steps(tmp_path, f"fetch: {{{LOCAL}}}")
        assert code(result(applied, page(f"{site.url}/private"))) == "fetch-robots"


def test_robots_may_be_redirected_to_any_path(tmp_path: Path) -> None:
    texts = {
        "/robots.txt": Answer(status=302, headers={"Location": "/rules"}),
        "/rules": Answer(b"User-agent: *\nDisallow: /private\n"),
        "/private": Answer(b"secret"),
        "/open": Answer(b"open"),
    }
    with web_site(answers(texts)) as site:
        applied = steps(tmp_path, f"fetch: {{{LOCAL}}}")
        assert isinstance(result(applied, page(f"{site.url}/open")), Record)
        assert code(result(applied, page(f"{site.url}/private"))) == "fetch-robots"
        assert site.paths == ["/robots.txt", "/rules", "/open"]


def test_robots_that_cannot_be_read_forbid_everything() -> None:
    rules = FetchRules(networks=("127.0.0.0/8",))
    with web_site(lambda request: Answer(status=500)) as site:
        applied = impatient(rules)
        made = result(applied, page(f"{site.url}/a"))
        assert isinstance(made, Reject)
        assert "robots.txt': 500" in made.reason
        assert set(site.paths) == {"/robots.txt"}


def test_redirects_stay_at_their_host_or_at_the_hosts_of_the_step(tmp_path: Path) -> None:
    with web_site(answers({"/there": Answer(b"there")})) as other:
        texts = {
            "/away": Answer(status=302, headers={"Location": f"{other.url}/there"}),
            "/local": Answer(
                status=302,
                headers={"Location": other.url.replace("127.0.0.1", "localhost") + "/there"},
            ),
        }
        with web_site(answers(texts)) as site:
            applied = steps(tmp_path, f"fetch: {{{LOCAL}, robots: ignore}}")
            assert isinstance(result(applied, page(f"{site.url}/away")), Record)  # the same host
            made = result(applied, page(f"{site.url}/local"))
            assert code(made) == "fetch-refused"
            entry = f"fetch: {{{LOCAL}, robots: ignore, hosts: 127.0.0.9}}"
            refused = result(steps(tmp_path, entry), page(f"{site.url}/away"))
            assert code(refused) == "fetch-refused"
        assert other.paths == ["/there"]


def test_private_addresses_are_refused_by_the_address_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    look_up = socket.getaddrinfo
    looked_up = []

    def getaddrinfo(host: Any, *words: Any, **more: Any) -> Any:
        looked_up.append(host)
        return look_up("127.0.0.1", *words, **more)

    with web_site(lambda request: Answer(b"inner")) as site:
        port = site.url.rpartition(":")[2]
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        for robots in ("obey", "ignore"):
            applied = steps(tmp_path, f"fetch: {{robots: {robots}, attempts: 1}}")
            for host in ("www.example.com", "127.0.0.1"):
                made = result(applied, page(f"http://{host}:{port}/a"))
                assert isinstance(made, Reject)
                assert made.code == "fetch-refused"
                assert "its host has the address 127.0.0.1" in made.reason
        assert site.paths == []
    assert "www.example.com" in looked_up


def test_credentials_are_sent_to_their_host_only_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CRAWL_PASSWORD", "s3cret")
    (tmp_path / "token").write_text("t0ken\n")
    with web_site(answers({"/there": Answer(b"x"), "/a": Answer(status=401)})) as other:
        there = other.url.replace("127.0.0.1", "localhost")
        texts = {
            "/a": Answer(b"x"),
            "/away": Answer(status=302, headers={"Location": f"{there}/there"}),
        }
        with web_site(answers(texts)) as site:
            entry = (
                f"fetch: {{{LOCAL}, robots: ignore, hosts: ['127.*', localhost], credentials: {{"
                f'"{site.url[7:]}": "ann:${{env:CRAWL_PASSWORD}}",'
                f'"{other.url[7:]}": "Bearer ${{file:{tmp_path}/token}}"}}}}'
            )
            applied = steps(tmp_path, entry)
            result(applied, page(f"{site.url}/a"))
            result(applied, page(f"{site.url}/away"))
            made = result(applied, page(f"{other.url}/a"))
            assert {request.authorization for request in site.requests} == {
                "Basic YW5uOnMzY3JldA=="
            }
        assert [request.authorization for request in other.requests] == [None, "Bearer t0ken"]
    assert isinstance(made, Reject)
    assert (made.code, "t0ken" in made.reason) == ("fetch-denied", False)
    assert "s3cret" not in repr(read_steps(tmp_path / "steps.yaml"))


def test_a_document_that_was_fetched_with_credentials_and_has_no_acl_is_secure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CRAWL_PASSWORD", "s3cret")
    with web_site(answers({"/open": Answer(b"open")})) as other:
        texts = {
            "/a": Answer(b"x"),
            "/login": Answer(status=302, headers={"Location": f"{other.url}/open"}),
        }
        with web_site(answers(texts)) as site:
            entry = f"fetch: {{{LOCAL}, robots: ignore, credentials: "
            entry += f'{{"{site.url[7:]}": "ann:${{env:CRAWL_PASSWORD}}"}}}}'
            applied = steps(tmp_path, entry)

            def crawl(url: str, **fields: Any) -> Crawl | None:
                made = result(applied, page(url, **fields))
                assert isinstance(made, Record)
                return made.crawl

            assert crawl(f"{site.url}/a") == Crawl(secure=True)
            assert crawl(f"{site.url}/login") == Crawl(secure=True)
            stated = Crawl(secure=False, pagerank=99)
            assert crawl(f"{site.url}/a", crawl=stated) == Crawl(secure=True, pagerank=99)
            assert crawl(f"{site.url}/a", acl=Acl()) is None
            by_metadata = (Meta("google:aclgroups", "staff"),)
            assert crawl(f"{site.url}/a", metadata=by_metadata) is None
            assert crawl(f"{other.url}/open") is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("fetch: {credentials: {h: 'ann:plain'}}", "credentials without a reference"),
        ("fetch: {credentials: {h: 'ann:${env:NOT_SET_HERE}'}}", "NOT_SET_HERE"),
        ("fetch: {networks: nowhere}", "a network such as"),
        ("fetch: {parallel: 0}", "a number, 1 or more"),
    ],
)
def test_rules_that_cannot_be_used_are_explained(entry: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        steps(tmp_path, entry)
    assert message in str(caught.value)
    assert "plain" not in str(caught.value)


@pytest.mark.slow
def test_a_feed_of_urls_becomes_a_feed_of_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {f"/{number}": Answer(f"text {number}".encode()) for number in range(30)}
    with web_site(answers(texts)) as site:
        urls = "".join(
            f'<record url="{site.url}/{number}" mimetype="text/html"/>' for number in range(31)
        )

        Path("feed.xml").write_text(gsa_feed(urls).replace("incremental", "metadata-and-url"))
        Path("steps.yaml").write_text(f"transform:\n- fetch: {{{LOCAL}}}\n")
        words = ["feed.xml", "--to", "thunderstone", "--transform", "steps.yaml", "-o", "out"]
        assert main(["convert", *words]) == 1
        text = Path("out/chunks/000001.xml").read_text()
        assert [text.index(f"{site.url}/{number}<") for number in range(30)] == sorted(
            text.index(f"{site.url}/{number}<") for number in range(30)
        )
        assert Path("out/urls.txt").read_text() == f"{site.url}/30\n"


@pytest.mark.slow
def test_pages_that_need_a_login_stay_secure_night_after_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRAWL_PASSWORD", "s3cret")

    def answer(request: Request) -> Answer:
        if request.path == "/inside" and request.authorization is None:
            return Answer(status=401)
        return Answer(b"text", headers={"Content-Type": "text/plain"})

    with web_site(answer) as site:
        records = f'<record url="{site.url}/inside" mimetype="text/plain"/>'
        Path("feed.xml").write_text(gsa_feed(records).replace("incremental", "metadata-and-url"))
        entry = f"fetch: {{{LOCAL}, robots: ignore, credentials: "
        entry += f'{{"{site.url[7:]}": "ann:${{env:CRAWL_PASSWORD}}"}}}}'
        Path("steps.yaml").write_text(f"transform:\n- {entry}\n")
        words = ["feed.xml", "--transform", "steps.yaml", "-o"]
        for night in ("first", "second"):
            feed = ["--to", "gsa-feed", "--datasource", "docs", "--feedtype", "incremental"]
            assert main(["convert", *words, night, *feed]) == 0
            assert 'authmethod="httpbasic"' in Path(night, "chunks/000001.xml").read_text()
        assert main(["convert", *words, "lost", "--to", "thunderstone"]) == 3  # it has no place
        assert not Path("lost/chunks").exists()
