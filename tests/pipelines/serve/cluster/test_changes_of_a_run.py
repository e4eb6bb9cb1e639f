"""A job reports who sees more documents and who sees fewer, and stops at a limit."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.served import Served, run, serving

pytestmark = pytest.mark.slow

JOB = """\
version: 1
job: nights
source: {{type: gsa-feed, path: "{0}/*.xml"}}
target: {{type: opensearch, url: "{1}", index: docs}}
runs: {0}/runs
metrics_file: {0}/nights.prom
safety: {{max_widened: 10%}}
"""


def write_feed(folder: Path, night: int, **readers: str) -> None:
    """Write a feed of documents with the groups that may see them."""
    records = "".join(
        f'<record url="http://h.example/{name}" mimetype="text/plain"><acl>'
        + "".join(
            f'<principal scope="group" access="permit">{group}</principal>'
            for group in groups.split()
        )
        + f"</acl><content>{name}</content></record>"
        for name, groups in readers.items()
    )
    header = "<header><datasource>files</datasource><feedtype>incremental</feedtype></header>"
    text = f"<gsafeed>{header}<group>{records}</group></gsafeed>"
    (folder / f"{night}.xml").write_text(text, "utf-8")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "spool") as started:
        (tmp_path / "job.yaml").write_text(JOB.format(tmp_path, started.url), "utf-8")
        write_feed(tmp_path, 1, a="staff", b="staff", c="staff board")
        done = run("run", str(tmp_path / "job.yaml"))
        assert done.returncode == 0, done.stderr
        yield started


def readers(served: Served) -> dict[str, list[str]]:
    hits = json.loads(served.get("/docs/_search"))["hits"]["hits"]
    return {hit["_id"][-1]: hit["_source"]["acl_1_permit_1"] for hit in hits}


def test_a_job_that_widens_too_many_documents_stops_and_goes_on_with_another_limit(
    served: Served, tmp_path: Path
) -> None:
    job = str(tmp_path / "job.yaml")
    before = readers(served)
    message = "1 of 3 documents would be seen by more users; expected at most 10%"
    write_feed(tmp_path, 2, a="staff board", c="staff", d="staff")
    planned = run("plan", job)
    assert planned.returncode == 3, planned.stderr
    assert f"{message}, the limit of safety.max_widened" in planned.stderr
    assert planned.stdout.splitlines()[-4:-1] == [
        "access    wider 1, narrower 1, new 1, same 1",
        "wider     http://h.example/a  +group board",
        "narrower  http://h.example/c  -group board",
    ]
    done = run("run", job)
    assert done.returncode == 3, done.stderr
    assert message in done.stderr
    assert "the limit of safety.max_widened" in done.stderr
    assert readers(served) == before
    listed = run("access", "--changes", job)
    assert (listed.returncode, listed.stdout.splitlines()) == (
        0,
        [
            "wider     http://h.example/a  +group board",
            "narrower  http://h.example/c  -group board",
        ],
    )
    done = run("run", job, "--set", "safety.max_widened=1")
    assert done.returncode == 0, done.stderr
    assert readers(served) == {
        "a": ["gs:Default:staff", "gs:Default:board"],
        "b": ["gs:Default:staff"],
        "c": ["gs:Default:staff"],
        "d": ["gs:Default:staff"],
    }
    _, stopped, _ = sorted((tmp_path / "runs" / "nights").glob("*/push"))
    [folder] = stopped.iterdir()
    report = json.loads((folder / "report.json").read_bytes())
    assert report["acl_changes"] == {"wider": 1, "narrower": 1, "new": 1, "same": 1}
    page = (folder.parent.parent / "report.html").read_text("utf-8")
    assert "Documents that other people see" in page
    assert "group board" in page
    assert "gs:Default:board" not in page
    metrics = (tmp_path / "nights.prom").read_text("utf-8")
    assert 'acl_changes{job="nights",change="same"} 4' in metrics


def write_acl(folder: Path, night: int, reader: str) -> None:
    """Write the ACL of a folder, and a document that is not below it."""
    acl = '<acl url="http://h.example/d/" inheritance-type="parent-overrides">'
    acl += f'<principal scope="group" access="permit">{reader}</principal></acl>'
    write_feed(folder, night, other="staff")
    path = folder / f"{night}.xml"
    path.write_text(path.read_text("utf-8").replace("<group>", f"<group>{acl}"), "utf-8")


def test_a_stop_before_anything_is_sent_leaves_the_acls_of_the_job_known(
    served: Served, tmp_path: Path
) -> None:
    job = str(tmp_path / "job.yaml")
    write_acl(tmp_path, 2, "staff")
    assert run("run", job).returncode == 0
    write_acl(tmp_path, 3, "board")
    write_feed(tmp_path, 4, a="staff board")
    done = run("run", job)
    assert (done.returncode, "max_widened" in done.stderr) == (3, True), done.stderr
    (tmp_path / "4.xml").unlink()
    done = run("run", job, "--fresh")
    assert (done.returncode, "may have been sent" in done.stderr) == (0, False), done.stderr
    before = sorted((tmp_path / "runs" / "nights").glob("*/replaced.acls"))
    assert len(before) == 1
    shown = run("state", "show", job)
    assert "unknown" not in shown.stdout


def test_changes_are_lines_of_json_and_a_run_without_a_list_is_refused(
    served: Served, tmp_path: Path
) -> None:
    job = str(tmp_path / "job.yaml")
    done = run("access", "--changes", job)
    assert done.returncode == 2
    assert "no acl-changes.csv; expected a run that was pushed to OpenSearch" in done.stderr
    write_feed(tmp_path, 2, a="board")
    assert run("run", job, "--set", "safety.max_widened=100%").returncode == 0
    done = run("access", "--changes", job, "--format", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "url": "http://h.example/a",
            "datasource": "files",
            "change": "both",
            "gained": ["gs:Default:board"],
            "lost": ["gs:Default:staff"],
        }
    ]
    assert run("access").returncode == 2


def test_a_plan_counts_all_kinds_of_changes_and_changes_nothing(
    served: Served, tmp_path: Path
) -> None:
    job = str(tmp_path / "job.yaml")
    before = readers(served)
    write_feed(tmp_path, 1, a="staff board", c="staff", d="staff")
    full = "--set", "target.feedtype=full", "--set", "safety.max_widened=100%"
    for _ in range(2):
        done = run("plan", job, *full, "--format", "json")
        access = json.loads(done.stdout)["access"]
        assert (done.returncode, access["changes"]) == (
            0,
            {"wider": 1, "narrower": 1, "gone": 1, "new": 1},
        )
        assert [change["url"][-1] for change in access["first"]] == ["a", "c"]
    assert readers(served) == before
    done = run("plan", job, "--sample", "50%")
    assert "access    not compared with the target: a sample of the input" in done.stdout
    done = run("plan", job, "--set", "target.index=none")
    assert "access    not compared with the target: there is no index yet" in done.stdout
