import csv
import json
from pathlib import Path
from typing import Any

import pytest

from support.forks import run
from support.served import Served, serving, start

pytestmark = pytest.mark.slow

RECORD = (
    '<record url="http://h.example/{0}" mimetype="text/plain"><acl><principal scope="user"'
    ' access="permit">alice</principal></acl><content>text {0} of {1}</content></record>'
)
FAULTS = """
- {endpoint: bulk, requests: 1, throttle: true}
- {endpoint: bulk, requests: 2, status: 503}
- {endpoint: bulk, requests: 3, reset: at-once}
- {endpoint: bulk, refuse_urls: ["http://h.example/2"]}
"""


def write_feed(folder: Path, night: str, *numbers: int, feedtype: str = "full") -> str:
    header = f"<header><datasource>files</datasource><feedtype>{feedtype}</feedtype></header>"
    records = "".join(RECORD.format(number, night) for number in numbers)
    path = folder / f"{night}.xml"
    path.write_text(f"<gsafeed>{header}<group>{records}</group></gsafeed>", "utf-8")
    return str(path)


def push(feed: str, served: Served, *flags: str) -> tuple[int, str]:
    """Return the exit code and the messages."""
    url = f"{served.url}/docs"
    output = feed.removesuffix(".xml")
    done = run("convert", feed, "-o", output, "--to", "opensearch", "--push-to", url, *flags)
    return done.returncode, done.stderr


def documents(served: Served) -> dict[str, Any]:
    """Return body and readers of each document, by its URL."""
    hits = json.loads(served.get("/docs/_search"))["hits"]["hits"]
    fields = "body", "acl_1_permit_1"
    return {hit["_id"]: tuple(hit["_source"].get(name) for name in fields) for hit in hits}


def test_a_full_feed_replaces_the_documents_of_the_night_before(tmp_path: Path) -> None:
    alice = ["us:Default:alice"]
    with serving(tmp_path / "spool") as served:
        assert push(write_feed(tmp_path, "monday", 1, 2), served)[0] == 0
        assert push(write_feed(tmp_path, "tuesday", 2, 3), served)[0] == 0
        assert documents(served) == {
            "http://h.example/2": ("text 2 of tuesday", alice),
            "http://h.example/3": ("text 3 of tuesday", alice),
        }


def test_a_receiver_that_is_killed_has_all_documents_that_it_acknowledged(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    process = start("serve", "--spool", str(spool), "--port", "0", "--min-free", "0")
    try:
        assert process.stdout is not None
        served = Served(process, process.stdout.readline().strip(), spool)
        assert push(write_feed(tmp_path, "monday", 1, 2), served)[0] == 0
    finally:
        process.kill()
        process.communicate()
    with serving(spool) as served:
        assert [*documents(served)] == ["http://h.example/1", "http://h.example/2"]


def test_a_push_goes_on_after_faults_and_hides_the_document_that_is_refused(
    tmp_path: Path,
) -> None:
    scenario = tmp_path / "faults.yaml"
    with serving(tmp_path / "spool") as served:
        assert push(write_feed(tmp_path, "monday", 1, 2), served)[0] == 0
    scenario.write_text(FAULTS, "utf-8")
    with serving(tmp_path / "spool", "--scenario", str(scenario)) as served:
        feed = write_feed(tmp_path, "tuesday", 1, 2, feedtype="incremental")
        code, messages = push(feed, served)
        assert code == 1, messages
        assert documents(served) == {
            "http://h.example/1": ("text 1 of tuesday", ["us:Default:alice"]),
            "http://h.example/2": ("text 2 of monday", None),
        }
    [folder] = (tmp_path / "tuesday" / "push").iterdir()
    with (folder / "withheld.csv").open(encoding="utf-8", newline="") as lines:
        rows = [*csv.DictReader(lines)]
    assert [(row["url"], row["datasource"], row["code"]) for row in rows] == [
        ("http://h.example/2", "files", "refused")
    ]
    assert json.loads((folder / "report.json").read_bytes())["withheld"] == 1
    page = (tmp_path / "tuesday" / "report.html").read_text("utf-8")
    assert "1 refused document that no user finds" in page
    assert "find the index of files" in page


def test_a_refused_document_stays_visible_if_the_user_wants_it(tmp_path: Path) -> None:
    scenario = tmp_path / "faults.yaml"
    scenario.write_text('- {endpoint: bulk, refuse_urls: ["http://h.example/2"]}\n', "utf-8")
    with serving(tmp_path / "spool") as served:
        assert push(write_feed(tmp_path, "monday", 1, 2), served)[0] == 0
    with serving(tmp_path / "spool", "--scenario", str(scenario)) as served:
        feed = write_feed(tmp_path, "tuesday", 2, feedtype="incremental")
        assert push(feed, served, "--set", "rejects.withhold=false")[0] == 1
        assert documents(served)["http://h.example/2"] == (
            "text 2 of monday",
            ["us:Default:alice"],
        )
    [folder] = (tmp_path / "tuesday" / "push").iterdir()
    assert not (folder / "withheld.csv").exists()


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    scenario = tmp_path / "faults.yaml"
    scenario.write_text("- {endpoint: bulk, requests: 1, disk_full: true}\n", "utf-8")
    with serving(tmp_path / "spool", "--scenario", str(scenario)) as served:
        feed = write_feed(tmp_path, "monday", 1, 2, feedtype="incremental")
        code, messages = push(feed, served)
        assert code == 0, messages
        assert messages.count("flood-stage watermark") == 1
        assert [*documents(served)] == ["http://h.example/1", "http://h.example/2"]


JOB = """\
version: 1
job: nights
source: {{type: gsa-feed, path: "{0}/*.xml"}}
target: {{type: opensearch, url: "{1}", index: docs}}
runs: {0}/runs
metrics_file: {0}/nights.prom
notify: {{command: {0}/count.sh}}
verify: target
"""
COUNT = '#!/bin/sh\necho "$FEEDFERRY_WITHHELD $FEEDFERRY_NEWER" > "${0%/*}/counts"\n'


def test_metrics_and_the_command_after_a_run_have_the_counts(tmp_path: Path) -> None:
    (tmp_path / "count.sh").write_text(COUNT, "utf-8")
    (tmp_path / "count.sh").chmod(0o755)
    scenario = tmp_path / "faults.yaml"
    scenario.write_text('- {endpoint: bulk, refuse_urls: ["http://h.example/2"]}\n', "utf-8")
    feed = Path(write_feed(tmp_path, "monday", 1, 2, 3, feedtype="incremental"))
    feed.write_text(feed.read_text("utf-8").replace("text 3 of monday", "<b/>"), "utf-8")
    with serving(tmp_path / "spool", "--scenario", str(scenario)) as served:
        (tmp_path / "job.yaml").write_text(JOB.format(tmp_path, served.url), "utf-8")
        done = run("run", str(tmp_path / "job.yaml"))
        assert done.returncode == 1, done.stderr
        assert "verified  1 same" in done.stdout
        assert [*documents(served)] == ["http://h.example/1"]
    assert (tmp_path / "counts").read_text("utf-8") == "2 0\n"
    metrics = (tmp_path / "nights.prom").read_text("utf-8").splitlines()
    assert 'feedferry_last_withheld{job="nights"} 2' in metrics
    assert 'feedferry_last_newer{job="nights"} 0' in metrics


def test_a_rehearsal_is_verified_with_searches_as_people_who_may_and_may_not_see(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "spool") as served:
        feed = write_feed(tmp_path, "monday", 1, 2)
        assert push(feed, served)[0] == 0
        done = run("verify", feed, "--against", f"{served.url}/docs")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (
            0,
            "result    2 same, 0 missing, 0 not deleted, 0 different, 0 unknown,"
            " 0 with another ACL",
        )


GONE = (
    "<gsafeed><header><datasource>two</datasource><feedtype>incremental</feedtype></header>"
    '<group><record url="http://h.example/2" action="delete"/></group></gsafeed>'
)


def test_a_url_in_two_datasources_is_two_documents(tmp_path: Path) -> None:
    """The chunk of a deletion does not state a datasource; that of the run does."""
    feeds = [write_feed(tmp_path, "one", 1, 2), write_feed(tmp_path, "two", 1, 2)]
    second = Path(feeds[1])
    second.write_text(second.read_text().replace(">files<", ">two<").replace("alice", "bob"))
    (tmp_path / "three.xml").write_text(GONE)
    feeds.append(str(tmp_path / "three.xml"))
    runs = [feed.removesuffix(".xml") for feed in feeds]
    with serving(tmp_path / "spool") as served:
        for feed in feeds:
            assert push(feed, served)[0] == 0
        for inputs in (runs, [*feeds, "--to", "opensearch"]):
            done = run("verify", *inputs, "--against", f"{served.url}/docs")
            assert (done.returncode, done.stdout.splitlines()[-1]) == (
                0,
                "result    3 same, 0 missing, 0 not deleted, 0 different, 0 unknown,"
                " 0 with another ACL",
            )
        done = run("verify", *runs[:2], "--against", f"{served.url}/docs")
        assert done.stdout.splitlines()[0].split() == ["missing", "http://h.example/2"]
    done = run("compact", *runs, "-o", str(tmp_path / "whole"), "--to", "opensearch")
    assert done.returncode == 0, done.stderr
    done = run("diff", str(tmp_path / "whole"), feeds[0], "--to", "opensearch")
    assert done.stdout.splitlines()[-1].startswith("result    2 same, 0 added, 1 removed")
