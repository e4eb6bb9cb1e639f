"""An appliance of another package lists its documents in its own terms, and is verified by them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.formats import registered
from feedferry.transforms.sinks.push.wire.address import APPLIANCES
from support.bulk_server import BulkServer, known, serving
from support.bulk_target import BULK, BULK_SERVER

URL = "http://intranet.example.com/"
PERMIT = '<acl><principal scope="group" access="permit">%s</principal></acl>'


def record(name: str, *, group: str = "", text: str = "Ships.") -> str:
    acl = PERMIT % group if group else ""
    return (
        f'<record url="{URL}{name}" mimetype="text/plain">{acl}<content>{text}</content></record>'
    )


def feed(*records: str) -> str:
    header = "<datasource>harbour</datasource><feedtype>incremental</feedtype>"
    group = "".join(records)
    return f"<gsafeed><header>{header}</header><group>{group}</group></gsafeed>"


@pytest.fixture
def server(here: Path) -> Iterator[BulkServer]:
    with known(), serving() as server:
        yield server


def push(server: BulkServer, *records: str) -> None:
    """Write a feed and push it."""
    Path("feed.xml").write_text(feed(*records))
    to = ("--to", "bulk", "--push-to", server.url)
    assert main(["convert", "feed.xml", "-o", "out", *to, "--progress", "none"]) == 0


def changes(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> list[dict[str, object]]:
    """Verify, and return the differences."""
    capsys.readouterr()
    assert main(["verify", *words, "--format", "json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out", "feed.xml"])
def test_documents_are_compared_by_what_the_server_knows(
    name: str, server: BulkServer, capsys: pytest.CaptureFixture[str]
) -> None:
    push(server, record("a", group="staff"), record("b"), record("c", text="Quays."), record("d"))
    words = (name, "--against", server.url, "--to", "bulk")
    assert changes(capsys, 0, *words) == []

    server.documents[f"{URL}a"]["allow"] = ["*"]
    server.documents[f"{URL}b"]["digest"] = "0"
    server.documents[f"{URL}c"]["sha256"] = "00" * 32
    del server.documents[f"{URL}d"]
    found = changes(capsys, 1, *words)
    assert [(each["url"], each["change"]) for each in found] == [
        (f"{URL}a", "different"),
        (f"{URL}d", "missing"),
        (f"{URL}b", "different"),
        (f"{URL}c", "different"),
    ]
    fields = [[field["field"] for field in each["fields"]] for each in found]  # type: ignore[attr-defined]  # JSON
    assert fields == [["acl"], [], ["field:digest"], ["content"]]


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_of_several_documents_of_a_url_is_compared(
    order: tuple[int, int], server: BulkServer, capsys: pytest.CaptureFixture[str]
) -> None:
    push(server, record("a", group="staff"))
    words = ("feed.xml", "--against", server.url, "--to", "bulk")
    own = server.documents[f"{URL}a"]
    server.documents["copy"] = dict(own)
    assert changes(capsys, 0, *words) == []

    copies = own, {**own, "allow": ["*"]}
    server.documents = {str(at): dict(copies[place]) for at, place in enumerate(order)}
    (found,) = changes(capsys, 1, *words)
    assert (found["url"], found["change"]) == (f"{URL}a", "different")


@pytest.mark.slow
def test_the_documents_are_read_page_by_page(
    server: BulkServer, capsys: pytest.CaptureFixture[str]
) -> None:
    push(server, *(record(f"{number:03d}") for number in range(250)))
    assert changes(capsys, 0, "out", "--against", server.url) == []
    assert server.pages == 3


@pytest.mark.slow
def test_credentials_are_sent_to_the_target_that_they_are_given_for(
    server: BulkServer, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push(server, record("a"))
    server.key = "s3cret"
    (here / "key").write_text("s3cret\n")
    assert main(["verify", "out", "--against", server.url]) == 4
    assert "status 401" in capsys.readouterr().err
    auth = ("--auth", "api_key=${file:key}")
    assert changes(capsys, 0, "out", "--against", server.url, *auth) == []


def job(here: Path, url: str, more: str) -> Path:
    path = here / "job.yaml"
    path.write_text(
        "version: 1\njob: harbour\nsource: {type: gsa-feed, path: feed.xml}\n"
        f"target: {{type: bulk, url: '{url}', auth: {{api_key: '${{file:key}}'}}}}\n{more}"
    )
    return path


@pytest.mark.slow
def test_a_job_is_verified_with_the_credentials_of_its_target(
    server: BulkServer, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.key = "s3cret"
    (here / "key").write_text("s3cret\n")
    (here / "feed.xml").write_text(feed(record("a", group="staff"), record("b")))
    path = str(job(here, server.url, "verify: target\n"))
    assert main(["run", path, "--progress", "none"]) == 0
    assert "verified  2 same; against" in capsys.readouterr().out
    assert main(["verify", path]) == 0


def test_an_appliance_without_a_list_is_refused_before_the_run(here: Path) -> None:
    (here / "key").write_text("s3cret\n")
    mute = replace(BULK_SERVER, list_documents=None)
    with registered(BULK), APPLIANCES.registered(mute):
        path = job(here, "http://127.0.0.1:9/hr/_bulk", "verify: target\n")
        with pytest.raises(ConfigError) as info:
            load_job(path, {}, {})
    assert str(info.value) == (
        f"{path}:5:9: verify.against: http://127.0.0.1:9/hr: appliances of the kind bulk-server"
        " cannot list their documents; expected an appliance that can, or another input, such as"
        " the run of another target"
    )


def test_chunks_that_cannot_be_read_are_refused_before_the_run(here: Path) -> None:
    (here / "key").write_text("s3cret\n")
    written = type(BULK)(name="bulk", title="lines", encoder=BULK.encoder, holds=BULK.holds)
    with registered(written), APPLIANCES.registered(BULK_SERVER):
        path = job(here, "http://127.0.0.1:9/hr/_bulk", "verify: target\n")
        with pytest.raises(ConfigError) as info:
            load_job(path, {}, {})
    assert str(info.value) == (
        f"{path}:5:9: verify.against: the run is compared by its chunks, and bulk is only written;"
        " expected a target whose format is read"
    )
