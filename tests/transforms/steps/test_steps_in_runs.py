"""Steps in conversions: batches, accounts, plans, jobs and explanations."""

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.steps import read_steps
from support.batches import SIZES, conversion
from support.rehearsal import acl, gsa_feed, membership, metadata, page, xmlgroups

OLD, NEW = "http://www.example.com/", "https://new.example.com/"
ENTRIES = {
    "urls": f"urls: {{rewrite: [['{OLD}', '{NEW}']]}}",
    "keep": "keep: {url: '*1'}",
    "type": "drop: {mimetype: 'image/*'}",
    "rename": "metadata: {rename: {x: z}, set: {site: a}}",
    "values": "metadata: {move: {'metadata:x': title}}",
    "names": "principals: {rewrite: [['*', 'A-*']]}",
    "no content": "content: {drop: 'text/*'}",
    "date": "drop: {modified_before: 2010-01-01}",
}


def feed(count: int) -> str:
    return gsa_feed(
        *(
            page(
                str(number),
                f"text {number}",
                inner=acl(f"user{number}") + metadata(x=str(number)),
                more=f' last-modified="Tue, 06 Nov {2007 + number % 9} 12:45:26 GMT"',
            )
            for number in range(count)
        )
    )


def write_steps(folder: Path, *entries: str) -> Path:
    path = folder / "steps.yaml"
    path.write_text("transform:\n" + "".join(f"- {entry}\n" for entry in entries))
    return path


@pytest.mark.parametrize("name", ENTRIES)
def test_records_in_batches_become_the_same_as_single_ones(name: str, tmp_path: Path) -> None:
    steps = read_steps(write_steps(tmp_path, ENTRIES[name]))
    data = feed(40).encode()
    for to in ("gsa-feed", "avro"):
        target = Target(format=to)
        single = conversion(data, target, batch_records=0, steps=steps)
        for size in SIZES:
            assert conversion(data, target, batch_records=size, steps=steps) == single


def test_the_account_and_the_plan_count_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(20))
    write_steps(tmp_path, ENTRIES["urls"], "drop: {url: '*9'}", "drop: {mimetype: image/png}")
    words = ["feed.xml", "--to", "gsa-feed", "--transform", "steps.yaml", "--format", "json"]
    assert main(["plan", *words]) == 0
    planned = json.loads(capsys.readouterr().out)["account"]
    assert (planned["changed"], planned["filter_codes"]) == ({"urls": 20}, {"drop": 2})
    assert planned["notices"]["step-unused"]["first"]["detail"].startswith("step 'drop-2'")


def test_patterns_that_match_nothing_are_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.xml").write_text(gsa_feed(page(name, name), page(f"{name}2", "two")))
    write_steps(
        tmp_path,
        "drop: {url: ['*/a', '*/b', '*/c']}",
        f"urls: {{rewrite: [['{OLD}', '{NEW}'], ['http://typo.example.com/', '{NEW}']]}}",
        "content: {drop: [text/plain, image/*]}",
        "metadata: {set: {a: b}}",
    )
    words = ["a.xml", "b.xml", "--to", "avro", "--transform", "steps.yaml"]
    assert main(["plan", *words, "--format", "json"]) == 0
    notice = json.loads(capsys.readouterr().out)["account"]["notices"]["pattern-unused"]
    assert (notice["count"], notice["first"]["detail"]) == (
        3,
        "3 patterns match nothing: '*/c' of drop, 'http://typo.example.com/' of urls,"
        " 'image/*' of content; expected each to match",
    )


MERGING = "urls: {rewrite: [['re:(.*)/x/(.*)', '\\1/\\2']]}"


def test_documents_that_become_one_url_are_reported_across_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.xml").write_text(gsa_feed(page("x/1", "one"), page("x/2", "two"), page("3", "three")))
    Path("b.xml").write_text(gsa_feed(page("1", "one"), page("3", "three")))
    write_steps(tmp_path, MERGING)
    words = ["a.xml", "b.xml", "--to", "gsa-feed", "--transform", "steps.yaml"]
    assert main(["plan", *words, "--format", "json"]) == 0
    merged = json.loads(capsys.readouterr().out)["account"]["notices"]["urls-merged"]
    detail = f"'{OLD}x/1' and '{OLD}1' become '{OLD}1'"
    assert (merged["count"], merged["first"]["detail"].rpartition(": ")[2]) == (
        1,
        detail.rpartition(": ")[2],
    )
    assert detail in merged["first"]["detail"]
    assert main(["convert", *words, "-o", "out"]) == 0
    assert (
        Path("out/merged-urls.csv").read_text() == f"url,origin\n{OLD}1,{OLD}x/1\n{OLD}1,{OLD}1\n"
    )
    write_steps(tmp_path, MERGING.replace("]]}", "]], merged: refuse}"))
    capsys.readouterr()
    assert main(["plan", *words, "--format", "json"]) == 3
    assert "merged: refuse" in json.loads(capsys.readouterr().out)["stops"][0]
    assert main(["convert", *words, "-o", "refused"]) == 3
    assert detail in capsys.readouterr().err
    assert not Path("refused/chunks").exists()


def test_unmapped_principals_are_listed_and_counted_across_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("feedferry.transforms.steps.run_lists.MAX_NAMES", 2)
    Path("a.xml").write_text(feed(5))
    Path("b.xml").write_text(feed(3))
    write_steps(tmp_path, "{name: people, principals: {rewrite: [['user1', 'ann']]}}")
    words = ["a.xml", "b.xml", "--to", "gsa-feed", "--transform", "steps.yaml"]
    assert main(["plan", *words, "--format", "json"]) == 0
    unmapped = json.loads(capsys.readouterr().out)["account"]["notices"]["principals-unmapped"]
    assert unmapped["count"] == 4
    assert unmapped["first"]["detail"] == (
        "4 principals in 6 places are not mapped, such as 'user0', 'user2', 'user3';"
        " unmapped-principals.csv has all"
    )
    assert main(["convert", *words, "-o", "out"]) == 0
    assert Path("out/unmapped-principals.csv").read_text().splitlines() == [
        "name,scope,count,step",
        "user0,USER,2,people",
        "user2,USER,2,people",
        "user3,USER,1,people",
        "user4,USER,1,people",
    ]
    assert "unmapped-principals.csv" in Path("out/report.html").read_text()


@pytest.mark.slow
def test_a_job_has_steps_and_a_change_of_them_begins_a_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(3))
    job = "version: 1\njob: n\nsource: {type: gsa-feed, path: feed.xml}\ntarget: {type: gsa-feed}\n"
    Path("job.yaml").write_text(f"{job}transform:\n- {ENTRIES['urls']}\n")
    assert main(["run", "job.yaml"]) == 0
    (chunk,) = Path("runs/n").glob("*/chunks/*")
    assert chunk.read_text().count(NEW) == 3
    assert main(["config", "render", "job.yaml"]) == 0
    assert "transform: [{" in capsys.readouterr().out
    Path("job.yaml").write_text(f"{job}transform:\n- urls: 3\n")
    assert main(["check", "job.yaml", "--offline"]) == 2
    assert "job.yaml:6:9: transform[0].urls: 3" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_whose_steps_filter_everything_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(3))
    write_steps(tmp_path, "keep: {url: 'https://*'}")
    words = ["feed.xml", "-o", "out", "--to", "gsa-feed", "--transform", "steps.yaml"]
    assert main(["convert", *words]) == 3
    assert "the steps filter all 3 records" in capsys.readouterr().err
    assert not Path("out/chunks").exists()


def test_a_record_is_shown_without_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(3))
    assert main(["plan", "feed.xml", "--to", "gsa-feed", "--explain", "*/1"]) == 0
    (record,) = capsys.readouterr().out.splitlines()
    assert record.startswith("record      {")
    assert OLD in record


def test_a_record_is_shown_after_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(3))
    write_steps(tmp_path, ENTRIES["urls"], ENTRIES["type"], "keep: {url: 'x*'}")
    words = ["plan", "feed.xml", "--to", "gsa-feed", "--transform", "steps.yaml", "--explain"]
    assert main([*words, "*/1"]) == 0
    record, urls, drop, keep = capsys.readouterr().out.splitlines()
    assert OLD in record
    assert NEW in urls
    assert (drop.split(), keep.split()) == (
        ["drop", "unchanged"],
        ["keep", "filtered", "by", "keep"],
    )
    assert main([*words, "*/none"]) == 1


FOLDER = (
    '<acl url="http://www.example.com/d/" inheritance-type="child-overrides">'
    '<principal scope="group" access="permit">staff</principal></acl>'
)
CHILD = (
    '<acl inherit-from="http://www.example.com/d/">'
    '<principal scope="user" access="deny">bob</principal></acl>'
)
STAFF = (
    "<xmlgroups><membership>"
    '<principal namespace="Default" scope="GROUP">staff</principal><members>'
    '<principal namespace="Default" scope="USER">ann</principal>'
    '<principal namespace="Default" scope="USER">cid</principal>'
    "</members></membership></xmlgroups>"
)


def write_inherited(*entries: str) -> None:
    """Write a feed whose parent comes last, a groups feed and steps in the working folder."""
    Path("feed.xml").write_text(gsa_feed(page("d/a", inner=CHILD), FOLDER))
    Path("groups.xml").write_text(STAFF)
    write_steps(Path(), *entries)


WORDS = ("feed.xml", "--to", "gsa-feed", "--transform", "steps.yaml")


def test_the_plan_and_the_explanation_resolve_acls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inherited("acl: effective")
    assert main(["plan", *WORDS, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["account"]["changed"] == {"acl": 2}
    words = ["plan", *WORDS, "--explain", "*/a"]
    assert main(words) == 0
    record, resolved = capsys.readouterr().out.splitlines()
    assert ("staff" in record, "staff" in resolved) == (False, True)
    assert 'http://www.example.com/d/"' not in resolved


@pytest.mark.slow
def test_a_run_resolves_acls_with_groups_and_needs_a_file_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inherited("acl: {groups: groups.xml}")
    assert main(["convert", *WORDS, "-o", "out"]) == 0
    (chunk,) = Path("out/chunks").iterdir()
    text = chunk.read_text()
    assert ("inherit-from" in text, "staff" in text) == (False, False)
    assert [text.count(f">{name}<") for name in ("ann", "bob", "cid")] == [2, 1, 2]
    Path("groups.xml").write_text("no groups")
    capsys.readouterr()
    assert main(["convert", *WORDS, "-o", "other"]) == 2
    assert "groups.xml" in capsys.readouterr().err
    assert not Path("other/chunks").exists()


def test_rejects_of_groups_are_in_the_account_of_the_plan_and_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inherited("acl: {groups: groups.xml}")
    damaged = membership("staff", "dan").replace('"USER"', '"USR"')
    Path("groups.xml").write_text(xmlgroups(membership("staff", "ann"), damaged))
    assert main(["plan", *WORDS, "--format", "json"]) == 1
    planned = json.loads(capsys.readouterr().out)["account"]
    assert main(["convert", *WORDS, "-o", "out"]) == 1
    account = json.loads(Path("out/report.json").read_text())["account"]
    for name in ("read", "rejected", "reject_codes", "notices"):
        assert account[name] == planned[name]
    assert account["reject_codes"] == {"acl-group-unknown": 2, "bad-membership": 1}
    assert account["notices"]["acl-parents"]["count"] == 1
    capsys.readouterr()
    assert main(["rejects", "list", "out", "--format", "json"]) in (0, 1)
    assert "bad-membership" in capsys.readouterr().out
    export = ["rejects", "export", "out", "-o", "fixed"]
    assert main([*export, "--code", "bad-membership"]) == 2
    assert "bad-membership: 1 reject without bytes, not exported: 3." in capsys.readouterr().err


@pytest.mark.slow
def test_acls_of_a_source_that_is_no_feed_are_not_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inherited("acl: effective")
    Path("tree").mkdir()
    Path("tree/a.txt").write_text("text")
    words = ["tree", "--base-url", "http://www.example.com/", "--acl", "posix", *WORDS[1:]]
    words += ["--datasource", "files"]
    for verb in (["plan"], ["convert", "-o", "out"]):
        assert main([*verb, *words]) == 2
        assert "the step acl reads tree before the run" in capsys.readouterr().err
    assert not Path("out/chunks").exists()


def update(url: str, inner: str = "") -> str:
    return f'<record url="{url}" mimetype="text/plain">{inner}</record>'


def write_updates() -> None:
    """Write a base in two files, and a feed with updates of it, a whole record and a deletion."""
    Path("base").mkdir()
    held = metadata(x="old", y="kept")
    Path("base/a.xml").write_text(
        gsa_feed(*(page(str(n), f"text {n}", inner=acl("ann") + held) for n in range(4)))
    )
    Path("base/b.xml").write_text(gsa_feed(page("5", "text 5"), page("6", "text 6")))
    Path("feed.xml").write_text(
        gsa_feed(
            update(f"{OLD}3", metadata(x="new")),
            update(f"{OLD}0", metadata(x="first")),
            page("6", "newer"),
            update(f"{OLD}6", metadata(z="6")),
            update(f"{OLD}0", metadata(x="second")),
            update(f"{OLD}7", metadata(x="none")),
            f'<record url="{OLD}5" action="delete" mimetype="text/plain"/>',
            update(f"{OLD}5", metadata(x="gone")),
        )
    )
    write_steps(Path(), "merge: base", "urls: {rewrite: [['http:', 'https:']]}")


def test_partial_updates_become_whole_documents_of_the_base_and_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_updates()
    words = ["feed.xml", "--to", "jsonl", "--transform", "steps.yaml"]
    assert main(["plan", *words, "--format", "json"]) in (0, 1)
    planned = json.loads(capsys.readouterr().out)["account"]
    assert main(["convert", *words, "-o", "out"]) == 1
    account = json.loads(Path("out/report.json").read_text())["account"]
    for name in ("read", "written", "reject_codes", "changed"):
        assert account[name] == planned[name]
    assert account["reject_codes"] == {"merge-no-base": 2}
    (chunk,) = Path("out/chunks").iterdir()
    written = [json.loads(line) for line in chunk.read_text().splitlines()]
    shown = [
        (
            record["url"].rpartition("/")[2],
            record["action"],
            b64decode(record.get("content", {}).get("data", "")).decode(),
            {meta["name"]: meta["value"] for meta in record.get("metadata", ())},
            "acl" in record,
        )
        for record in written
    ]
    second = ("0", "ADD", "text 0", {"x": "second"}, True)
    assert shown == [
        ("3", "ADD", "text 3", {"x": "new"}, True),
        second,
        ("6", "ADD", "newer", {}, False),
        ("6", "ADD", "newer", {"z": "6"}, False),
        second,
        ("5", "DELETE", "", {}, False),
    ]
    words = ["plan", "feed.xml", "--to", "gsa-feed", "--transform", "steps.yaml"]
    assert main([*words, "--explain", "*/3"]) == 0
    assert b64encode(b"text 3").decode() in capsys.readouterr().out


def test_an_update_is_not_merged_onto_an_older_version_than_one_that_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base").mkdir()
    Path("base/a.xml").write_text(
        gsa_feed(*(page(str(n), "old", inner=acl("ann")) for n in (1, 2)))
    )
    newest = '<acl><principal scope="user" access="deni">ann</principal></acl>'
    Path("feed.xml").write_text(
        gsa_feed(
            *(page(str(n), "new", inner=newest) for n in (1, 2)),
            page("2", "whole", inner=acl("bob")),
            *(update(f"{OLD}{n}", metadata(x="1")) for n in (1, 2)),
        )
    )
    write_steps(Path(), "merge: base")
    words = ["feed.xml", "--to", "jsonl", "--transform", "steps.yaml", "-o", "out"]
    assert main(["convert", *words]) == 1
    account = json.loads(Path("out/report.json").read_text())["account"]
    assert account["reject_codes"] == {"bad-acl": 2, "merge-no-base": 1}
    (chunk,) = Path("out/chunks").iterdir()
    written = [json.loads(line) for line in chunk.read_text().splitlines()]
    assert [record["acl"]["principals"][0]["name"] for record in written] == ["bob", "bob"]


def test_a_base_that_is_not_there_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_updates()
    write_steps(tmp_path, "merge: {base: none}")
    words = ["feed.xml", "--to", "jsonl", "--transform", "steps.yaml", "-o", "out"]
    assert main(["convert", *words]) == 2
    assert "none" in capsys.readouterr().err
    assert not Path("out/chunks").exists()
