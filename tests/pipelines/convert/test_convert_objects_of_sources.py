"""Trees, databases, programs and spools in object storage: chunks, resumed runs, and states."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

import feedferry
from feedferry.pipelines.folders.remote_folder import RemoteFolder
from feedferry.pipelines.folders.remote_runs import opened_remote
from feedferry.pipelines.job.run.run_result import RunResult
from feedferry.schemas.errors import BusyError, ConfigError, FatalError
from feedferry.transforms.conversion.convert import SpanConversion
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from support import remotes
from support.archives import document, gsa_feed, put
from support.spools import HandSpool

URI = f"s3://{remotes.BUCKET}/run"
LISTER = r"printf 'GSA Adaptor Data Version 1 [\n]\nid-list\n'; printf 'doc%s\n' $(seq 0 39)"
RETRIEVER = r"""
printf 'GSA Adaptor Data Version 1 [\n]\nid=%s\nmime-type=text/plain\ncontent\nhello' "$0"
"""
MAPPING = """\
connection: sqlite:///people.db
table: people
url: https://people.example.com/{id}
content: {column: body}
incremental: {deletes: compare}
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("s3")]


def tree() -> dict[str, object]:
    for number in range(40):
        put(Path(f"docs/{number % 4}/{number}.txt"), b"text " * 200)
    return {"inputs": "docs", "base_url": "http://e.example.com/", "datasource": "docs"}


def database() -> dict[str, object]:
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT)")
        rows = [(number, f"hello {number} " * 200) for number in range(40)]
        connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
    put(Path("people.yaml"), MAPPING.encode())
    given = {"inputs": "people.yaml", "from_format": "database", "mapping": "people.yaml"}
    return {**given, "datasource": "people"}


def programs() -> dict[str, object]:
    texts = {"lister": LISTER, "retriever": RETRIEVER}
    commands = {name: ["/bin/sh", "-c", text] for name, text in texts.items()}
    put(Path("programs.yaml"), json.dumps(commands).encode())
    given = {"inputs": "programs.yaml", "from_format": "adaptor", "datasource": "wiki"}
    return {**given, "base_url": "http://e.example.com/"}


def spool() -> dict[str, object]:
    folder = HandSpool("spool")
    for number in range(3):
        folder.feed(gsa_feed(*(document(n) for n in range(number * 9, number * 9 + 9))))
    folder.feed(gsa_feed(document(50), feedtype="full"), feedtype="full")
    folder.feed(gsa_feed(document(99)))
    return {"inputs": "spool", "from_format": "spool"}


def run(output: str, given: dict[str, object], **more: object) -> RunResult:
    words = {"to_format": "gsa-feed", "span_bytes": "8KiB", "accept_loss": "acl", **given, **more}
    inputs = words.pop("inputs")
    return feedferry.convert(inputs, output, **words)  # type: ignore[arg-type]  # texts of flags


def chunks(root: str) -> list[bytes | None]:
    storage = storage_of(root)
    lines = (storage.get("manifest.jsonl") or b"").splitlines()
    return [storage.get(json.loads(line)["path"]) for line in lines]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


class Converted(NamedTuple):
    """The arguments of a conversion of a source, and the chunks of a local run with them."""

    given: dict[str, object]
    chunks: list[bytes | None]


@pytest.fixture(scope="module", params=[tree, database, programs, spool])
def converted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Converted]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("source"))
        given = request.param()
        run("out", given)
        yield Converted(given, chunks("out"))


@pytest.mark.parametrize("words", [{}, {"jobs": "2"}, {"runner": "FnApiRunner"}])
def test_a_source_in_object_storage_has_the_chunks_of_a_local_run(
    converted: Converted, words: dict[str, object]
) -> None:
    run(URI, converted.given, **words)

    assert chunks(URI) == converted.chunks
    assert len(chunks(URI)) > 1 or converted.given["inputs"] == "programs.yaml"
    manifest = storage_of(URI).get("manifest.jsonl") or b""
    published = {json.loads(line)["path"] for line in manifest.splitlines()}
    assert set(storage_of(URI).sizes(".work")) == published


def test_a_killed_run_of_a_source_is_resumed_by_another_driver(
    converted: Converted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists in object storage are those of the killed run, and no span is converted again."""
    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            run(URI, converted.given)
    monkeypatch.setattr(SpanConversion, "run", _killed)
    run(URI, converted.given)

    assert chunks(URI) == converted.chunks


STATE = f"s3://{remotes.BUCKET}/states/docs"


def generations() -> list[str]:
    return sorted(storage_of(STATE).sizes())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("source", [tree, database])
def test_a_state_in_object_storage_has_an_object_for_each_generation(
    source: Callable[[], dict[str, object]],
) -> None:
    given = source()
    counts = []
    for number in range(4):
        result = run(f"{URI}-{number}", given, state=STATE)
        assert result.conversion is not None
        counts.append(result.conversion.report.account.written)
        run(f"out-{number}", given, state="docs.state")
        assert chunks(f"{URI}-{number}") == chunks(f"out-{number}")
        if source is tree:
            Path("docs/0/0.txt").unlink(missing_ok=True)

    assert counts[0] == {"ADD": 40}
    assert counts[1:] == ([{"DELETE": 1}, {}, {}] if source is tree else [{}, {}, {}])
    assert generations() == ["000000003.db", "000000004.db"]
    settings = storage_of(f"{URI}-1").get("config.rendered.yaml") or b""
    assert b"state:" in settings, settings.decode()
    assert b"feedferry-" not in settings, settings.decode()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("step", ["publish", "save_state"])
def test_a_killed_run_with_deletions_is_resumed_by_another_driver(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan names the list of deletions in the mirror of the killed run."""
    given = {**database(), "max_delete_percent": "100"}
    run("out-0", given, state="local.state")
    run(f"{URI}-0", given, state=STATE)
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.execute("DELETE FROM people WHERE id = 7")
    run("out-1", given, state="local.state")
    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, step, _killed)
        with pytest.raises(KeyboardInterrupt):
            run(f"{URI}-1", given, state=STATE)
    monkeypatch.setattr(SpanConversion, "run", _killed)
    run(f"{URI}-1", given, state=STATE)

    assert chunks(f"{URI}-1") == chunks("out-1")
    assert b'action="delete"' in (chunks(f"{URI}-1")[0] or b"")


@pytest.mark.usefixtures("here")
def test_a_run_that_is_killed_after_it_has_put_its_state_is_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = tree()
    with monkeypatch.context() as patch:
        patch.setattr("feedferry.pipelines.job.run.engine.close_work_folder", _killed)
        with pytest.raises(KeyboardInterrupt):
            run(URI, given, state=STATE)
    assert generations() == ["000000001.db"]
    monkeypatch.setattr(SpanConversion, "run", _killed)
    run(URI, given, state=STATE)

    assert generations() == ["000000001.db"]
    assert len(chunks(URI)) > 1


@pytest.mark.usefixtures("here")
def test_a_state_that_another_run_has_updated_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its lease was taken over: the generation is put only if there is none."""
    given, save = tree(), RemoteFolder.save_state

    def raced(self: RemoteFolder) -> None:
        storage_of(STATE).put("000000001.db", b"of another run")
        save(self)

    monkeypatch.setattr(RemoteFolder, "save_state", raced)
    with pytest.raises(FatalError, match=r"000000001\.db: another run has updated this state"):
        run(URI, given, state=STATE)
    assert storage_of(STATE).get("000000001.db") == b"of another run"


@pytest.mark.usefixtures("here")
def test_two_runs_of_a_state_are_refused() -> None:
    given = tree()
    busy = pytest.raises(BusyError, match=f"{STATE}: in use by process")
    with opened_remote(f"{URI}-2") as other, other.opened_state(STATE), busy:
        run(URI, given, state=STATE)
    assert run(URI, given, state=STATE).exit_code == 0


@pytest.mark.usefixtures("here")
def test_a_state_in_object_storage_is_for_a_run_there() -> None:
    given = tree()
    with pytest.raises(ConfigError, match="only with an output in object storage"):
        run("out", given, state=STATE)
    with pytest.raises(ConfigError, match="state: not with runner and output s3://"):
        run(URI, given, state=STATE, runner="DirectRunner")
