"""Trees, databases, programs and spools in object storage: chunks, resumed runs, and states."""

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import feedferry
from pipelines.folders.remote_folder import RemoteFolder
from pipelines.job.run_result import RunResult
from support import remotes
from support.archives import document, gsa_feed, put
from support.spools import HandSpool
from transforms.convert import SpanConversion
from transforms.storage.find_storage import storage_of

URI = f"s3://{remotes.BUCKET}/run"
HEADER = "GSA Adaptor Data Version 1 [\\n]\\n"
LISTER = f"""\
import sys
sys.stdout.write("{HEADER}id-list\\n" + "".join(f"doc{{n}}\\n" for n in range(40)))
"""
RETRIEVER = f"""\
import sys
sys.stdout.write("{HEADER}id=" + sys.argv[1] + "\\nmime-type=text/plain\\ncontent\\nhello")
"""
MAPPING = """\
connection: sqlite:///people.db
table: people
url: https://people.example.com/{id}
content: {column: body}
incremental: {deletes: compare}
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture(autouse=True)
def s3() -> Iterator[None]:
    with remotes.s3_server():
        yield


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
    put(Path("list.py"), LISTER.encode())
    put(Path("get.py"), RETRIEVER.encode())
    python = json.dumps(sys.executable)
    text = f"lister: [{python}, list.py]\nretriever: [{python}, get.py]\n"
    put(Path("programs.yaml"), text.encode())
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


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("source", [tree, database, programs, spool])
def test_a_source_in_object_storage_has_the_chunks_of_a_local_run(
    source: Callable[[], dict[str, object]], jobs: str
) -> None:
    given = source()
    run("out", given)
    run(URI, given, jobs=jobs)

    assert chunks(URI) == chunks("out")
    assert len(chunks(URI)) > 1 or source is programs
    manifest = storage_of(URI).get("manifest.jsonl") or b""
    published = {json.loads(line)["path"] for line in manifest.splitlines()}
    assert set(storage_of(URI).sizes(".work")) == published


@pytest.mark.parametrize("source", [tree, database, programs, spool])
def test_a_killed_run_of_a_source_is_resumed_by_another_driver(
    source: Callable[[], dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists in object storage are those of the killed run, and no span is converted again."""
    given = source()
    run("out", given)
    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            run(URI, given)
    monkeypatch.setattr(SpanConversion, "run", _killed)
    run(URI, given)

    assert chunks(URI) == chunks("out")
