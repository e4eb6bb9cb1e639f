"""A migration: 2,000 documents of GSA feeds become those of a Thunderstone appliance."""

import gzip
from hashlib import sha256
from pathlib import Path

import pytest

from feedferry.schemas.run_record import Phase
from support.operators import Operator, appliance, contents, has_receipts, has_spans

pytestmark = pytest.mark.slow

JOB = """\
version: 1
job: migration
source:
  type: gsa-feed
  path: ["archive/*.xml", "archive/*.xml.gz"]
  span_bytes: 64KiB
target:
  type: thunderstone
  url: {url}/texis/dowalk/recvdata.xml
  profile: intranet
chunk: {{max_bytes: 64KiB}}
loss: {{accept: [acl]}}
"""
SLOW = "- {endpoint: recvdata, delay: 100ms}\n"


def write_archive(folder: Path) -> dict[str, str | None]:
    """Write four feeds, the last one compressed; return the digests of the documents at the end.

    The third feed deletes a hundred documents of the first, and sends another hundred again.
    """
    folder.mkdir()
    at_the_end: dict[str, str | None] = {}
    for feed in range(4):
        records = []
        for number in range(500):
            url = f"http://intranet.example.com/{feed}/{number}?a=1&b=é"
            records.append(record(url, f"Feed {feed}, page {number}. " * 20, at_the_end))
        for number in range(200 if feed == 2 else 0):
            url = f"http://intranet.example.com/0/{number}?a=1&b=é"
            if number % 2:
                records.append(record(url, f"A second edition of {number}.", at_the_end))
            else:
                records.append(
                    f'<record url="{escape(url)}" mimetype="text/html" action="delete"/>'
                )
                del at_the_end[url]
        feed_file(folder / f"{feed}.xml", records, is_compressed=feed == 3)
    return at_the_end


def record(url: str, text: str, documents: dict[str, str | None]) -> str:
    documents[url] = sha256(text.encode()).hexdigest()
    return (
        f'<record url="{escape(url)}" mimetype="text/html" last-modified="Sun, 22 Nov 2026 02:00:00'
        ' GMT"><acl><principal scope="group" access="permit">staff</principal></acl>'
        f'<metadata><meta name="dept" content="yard"/></metadata><content>{text}</content></record>'
    )


def escape(url: str) -> str:
    return url.replace("&", "&amp;")


def feed_file(path: Path, records: list[str], *, is_compressed: bool) -> None:
    feed = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
        "<gsafeed><header><datasource>intranet</datasource><feedtype>incremental</feedtype>"
        "</header>\n<group>\n" + "\n".join(records) + "\n</group></gsafeed>\n"
    ).encode()
    if is_compressed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(feed))
    else:
        path.write_bytes(feed)


def test_a_migration_that_is_killed_twice_brings_each_document_once(tmp_path: Path) -> None:
    expected = write_archive(tmp_path / "archive")
    scenario = tmp_path / "slow.yaml"
    scenario.write_text(SLOW)
    with appliance(tmp_path / "spool") as thunderstone:
        operator = Operator(tmp_path, "migration", JOB.format(url=thunderstone.url))
        with thunderstone.up("--scenario", str(scenario)) as served:
            first = operator.run_killed(Phase.CONVERT, has_spans(3))
            second = operator.run_killed(Phase.PUSH, has_receipts(4))
            finished = operator.run("--only-resume")
            held = contents(served)
            deliveries = served.arrivals()

    assert first == second == operator.runs()[-1]
    assert (finished.returncode, finished.stderr.count("Traceback")) == (0, 0), finished.stderr
    assert operator.record().phase is Phase.DONE
    assert held == expected
    assert len(expected) == 1900
    assert sum(deliveries.values()) - len(deliveries) <= 1  # the chunk in flight at the kill


@pytest.mark.kind("journey")
def test_a_plan_says_what_the_run_then_does(tmp_path: Path) -> None:
    write_archive(tmp_path / "archive")
    with appliance(tmp_path / "spool") as thunderstone:
        operator = Operator(tmp_path, "migration", JOB.format(url=thunderstone.url))
        with thunderstone.up():
            planned = operator.feedferry("plan", str(operator.file))
            assert not operator.home.exists()
            finished = operator.run()

    assert (planned.returncode, finished.returncode) == (0, 0), planned.stderr + finished.stderr
    assert account_lines(planned.stdout) == account_lines(finished.stdout)


def account_lines(text: str) -> list[str]:
    """Return the lines with actions, losses, rejects and filtered records."""
    names = ("ADD", "DELETE", "loss", "reject", "filtered")
    return [line for line in text.splitlines() if line.startswith(names)]
