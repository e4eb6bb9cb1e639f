"""Trees of files as a source by the command line, and what a second run makes of them."""

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.archives import gsa_feed, put
from support.runs import chunks, column, convert, left, report

PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n"
BASE = ("--base-url", "https://docs.example.com/", "--datasource", "pdfs", "--to", "gsa-feed")
STATE = (*BASE, "--state", "pdfs.state")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def tree(here: Path) -> Path:
    """Five documents, and a few files that are none."""
    put(here / "pdfs/plan.pdf", PDF)
    put(here / "pdfs/plan.pdf.meta.json", b'{"Author": "Bjorn Halvorsen"}')
    put(here / "pdfs/hull 121/parts.txt", b"keel, ribs, planks")
    put(here / "pdfs/hull 121/index.html", b"<html><title>Hull</title></html>")
    put(here / "pdfs/notes/2026/rope & sail.txt", "Tau und Segel, größer".encode())
    put(here / "pdfs/notes/empty.txt", b"")
    put(here / "pdfs/notes/~$draft.docx", b"lock")
    put(here / "pdfs/.hidden", b"x")
    put(here / "pdfs/zebra.csv", b"a,b\n1,2\n")
    return here / "pdfs"


def lines(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def urls(folder: str) -> list[str]:
    """The urls of the records of all chunks, each with its action if it is to be deleted."""
    text = b"".join(chunks(folder)).decode()
    records = text.split('<record url="')[1:]
    return [
        record.split('"')[0] + (" deleted" if 'action="delete"' in record.split(">")[0] else "")
        for record in records
    ]


def touch(path: Path, text: bytes, *, seconds: int = 60) -> None:
    """Write a file whose time of change is surely another."""
    path.write_bytes(text)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + seconds * 10**9))


def age(tree: Path) -> None:
    """Let no file be so young that it might change within the tick of its clock."""
    for path in tree.rglob("*"):
        os.utime(path, ns=(0, 1_700_000_000 * 10**9))


def test_a_folder_of_documents_needs_no_format(tree: Path) -> None:
    code = convert("pdfs", *BASE, "-o", "out")

    account = report("out")["account"]
    assert code == 0
    assert account["read"] == {"ADD": 9}
    assert account["written"] == {"ADD": 5}
    assert account["filter_codes"] == {"empty": 1, "hidden": 1, "sidecar": 1, "temporary": 1}
    assert urls("out") == [
        "https://docs.example.com/hull%20121/index.html",
        "https://docs.example.com/hull%20121/parts.txt",
        "https://docs.example.com/notes/2026/rope%20%26%20sail.txt",
        "https://docs.example.com/plan.pdf",
        "https://docs.example.com/zebra.csv",
    ]


def test_what_is_left_out_stands_in_a_list_by_name(tree: Path) -> None:
    convert("pdfs", *BASE, "-o", "out")
    assert [(line["code"], line["url"]) for line in lines("out/filtered.jsonl")] == [
        ("hidden", "https://docs.example.com/.hidden"),
        ("empty", "https://docs.example.com/notes/empty.txt"),
        ("temporary", "https://docs.example.com/notes/~%24draft.docx"),
        ("sidecar", "https://docs.example.com/plan.pdf.meta.json"),
    ]


def test_a_record_has_content_type_date_and_metadata(tree: Path) -> None:
    age(tree)
    convert("pdfs", *BASE, "-o", "out")
    record = (
        b'<record url="https://docs.example.com/plan.pdf" mimetype="application/pdf"'
        b' last-modified="Tue, 14 Nov 2023 22:13:20 GMT">\n<metadata>\n'
        b'<meta name="Author" content="Bjorn Halvorsen"/>\n</metadata>\n'
        b'<content encoding="base64binary">JVBERi0xLjQKJeLjz9MKMSAwIG9iago8PD4+CmVuZG9iago='
        b"</content>\n</record>\n"
    )
    assert record in chunks("out")[0]


def test_jobs_change_no_byte(tree: Path) -> None:
    convert("pdfs", *BASE, "-o", "one", "--span-bytes", "1500")
    convert("pdfs", *BASE, "-o", "two", "--span-bytes", "1500", "--jobs", "2")
    assert len(chunks("one")) > 2
    assert chunks("one") == chunks("two")


def test_a_feed_that_is_crawled_has_urls_only(tree: Path) -> None:
    convert("pdfs", *BASE, "-o", "out", "--feedtype", "metadata-and-url")
    text = chunks("out")[0]
    assert b"<content" not in text
    assert b'<meta name="Author" content="Bjorn Halvorsen"/>' in text
    assert report("out")["account"]["losses"] == {}


def test_archives_are_left_out_or_opened(here: Path, tree: Path) -> None:
    with zipfile.ZipFile(tree / "old.zip", "w") as archive:
        archive.writestr("inner/deep.txt", "hello")
    convert("pdfs", *BASE, "-o", "out")
    convert("pdfs", *BASE, "-o", "opened", "--open-archives")
    assert report("out")["account"]["filter_codes"]["archive"] == 1
    assert "https://docs.example.com/old.zip/inner/deep.txt" in urls("opened")


def test_files_can_be_named_one_by_one(tree: Path) -> None:
    convert("pdfs/plan.pdf", "pdfs/zebra.csv", "--from", "files", *BASE, "-o", "out")
    assert urls("out") == [
        "https://docs.example.com/plan.pdf",
        "https://docs.example.com/zebra.csv",
    ]


def test_a_folder_of_feeds_is_still_read_as_feeds(here: Path) -> None:
    put(here / "feeds/a.xml", gsa_feed('<record url="http://a.example.com/" action="delete"/>'))
    assert convert("feeds", "--to", "native", "-o", "out") == 0
    assert column("out", "records") == [{"DELETE": 1}]


def test_a_folder_of_both_is_for_its_user_to_say(
    here: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("plan.pdf", "plan.pdf.meta.json", "zebra.csv"):
        (tree / name).unlink()
    put(tree / "a.xml", gsa_feed())
    code = convert("pdfs", *BASE, "-o", "out")
    found = capsys.readouterr().err
    assert code == 2
    assert found.startswith("feedferry: INPUT: 'pdfs' holds feeds (a.xml) and other files (")
    assert found.endswith(
        "expected --from files, to take each file as a document, or --from and the format of the"
        " feeds\n"
    )


def test_a_flag_of_trees_is_refused_for_feeds(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "a.xml", gsa_feed())
    code = convert("a.xml", "--to", "avro", "-o", "out", "--hidden")
    assert (code, capsys.readouterr().err) == (
        2,
        "feedferry: --hidden: not for this source; expected a tree (--from files)\n",
    )


def test_a_second_run_emits_nothing(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    code = convert("pdfs", *STATE, "-o", "two")
    account = report("two")["account"]
    assert code == 0
    assert account["written"] == {}
    assert account["filter_codes"]["unchanged"] == 5
    assert left("two/chunks") == []


def test_a_second_run_emits_what_changed_and_nothing_else(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    touch(tree / "zebra.csv", b"a,b\n1,3\n")
    touch(tree / "plan.pdf", PDF)
    (tree / "hull 121/parts.txt").unlink()
    convert("pdfs", *STATE, "-o", "two")
    assert urls("two") == [
        "https://docs.example.com/hull%20121/parts.txt deleted",
        "https://docs.example.com/zebra.csv",
    ]


def test_a_sidecar_that_changed_sends_its_document_again(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    touch(tree / "plan.pdf.meta.json", b'{"Author": "Ida"}')
    convert("pdfs", *STATE, "-o", "two")
    assert urls("two") == ["https://docs.example.com/plan.pdf"]


def test_more_deletions_than_are_safe_stop_the_run(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    (tree / "plan.pdf").unlink()
    (tree / "zebra.csv").unlink()
    code = convert("pdfs", *STATE, "-o", "two")
    found = capsys.readouterr().err
    assert code == 3
    assert "--max-delete-percent" in found
    assert not Path("two/chunks").exists()


def test_deletions_that_are_wanted_go_through(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    (tree / "plan.pdf").unlink()
    (tree / "plan.pdf.meta.json").unlink()
    (tree / "zebra.csv").unlink()
    code = convert("pdfs", *STATE, "-o", "two", "--max-delete-percent", "40")
    assert code == 0
    assert urls("two") == [
        "https://docs.example.com/plan.pdf deleted",
        "https://docs.example.com/zebra.csv deleted",
    ]


def test_a_run_that_stopped_does_not_move_the_state(tree: Path) -> None:
    age(tree)
    put(tree / "bad.pdf", PDF)
    put(tree / "bad.pdf.meta.json", b"[1]")
    stopped = convert("pdfs", *STATE, "-o", "one", "--max-rejects", "0")
    (tree / "bad.pdf.meta.json").unlink()
    convert("pdfs", *STATE, "-o", "two")
    assert stopped == 3
    assert len(urls("two")) == 6


def test_what_was_rejected_is_read_again(tree: Path) -> None:
    put(tree / "bad.pdf", PDF)
    put(tree / "bad.pdf.meta.json", b"[1]")
    age(tree)
    first = convert("pdfs", *STATE, "-o", "one")
    second = convert("pdfs", *STATE, "-o", "two")
    assert (first, second) == (1, 1)
    assert report("two")["account"]["reject_codes"] == {"bad-sidecar": 1}


def test_a_refresh_sends_all(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    convert("pdfs", *STATE, "-o", "two", "--refresh")
    assert len(urls("two")) == 5


def test_another_table_of_acls_sends_all_again(here: Path, tree: Path) -> None:
    age(tree)
    acl = ("--acl", put(here / "acl.csv", b"pattern,access,scope,name\n**,permit,group,staff\n"))
    convert("pdfs", *STATE, *acl, "-o", "one")
    put(here / "acl.csv", b"pattern,access,scope,name\n**,deny,group,staff\n")
    convert("pdfs", *STATE, *acl, "-o", "two")
    assert len(urls("two")) == 5
    assert b'access="deny">staff</principal>' in chunks("two")[0]


def test_another_base_url_moves_all_documents(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    code = convert(
        *("pdfs", *STATE, "-o", "two", "--base-url", "https://new.example.com/"),
        *("--max-delete-percent", "100"),
    )
    assert code == 0
    assert urls("two")[:2] == [
        "https://docs.example.com/hull%20121/index.html deleted",
        "https://new.example.com/hull%20121/index.html",
    ]


def test_a_full_feed_is_not_made_of_changes(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = convert("pdfs", *STATE, "-o", "out", "--feedtype", "full")
    assert (code, capsys.readouterr().err) == (
        2,
        "feedferry: --feedtype full: not with --state, because a full feed deletes documents that"
        " are not in it, and unchanged documents are left out; --refresh sends all\n",
    )


def test_a_full_feed_without_a_rejected_file_is_stopped(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tree / "bad.pdf", PDF)
    put(tree / "bad.pdf.meta.json", b"[1]")
    code = convert("pdfs", *BASE, "-o", "out", "--feedtype", "full")
    assert code == 3
    assert (
        "without 1 document or part of the input (unreadable, too large, rejected or up to date)"
        in capsys.readouterr().err
    )


def test_contents_are_compressed_on_request(tree: Path) -> None:
    put(tree / "long.txt", b"rope and sail, " * 1000)
    convert("pdfs", *BASE, "-o", "out", "--content-encoding", "zlib")
    assert b'<content encoding="base64compressed">' in chunks("out")[0]


def test_what_others_may_not_read_is_not_made_public(tree: Path) -> None:
    (tree / "zebra.csv").chmod(0o640)
    (tree / "hull 121").chmod(0o750)
    convert("pdfs", *BASE, "-o", "out")
    secure = [
        record.split('"')[1]
        for record in chunks("out")[0].decode().split("<record ")
        if 'authmethod="httpbasic"' in record
    ]
    assert secure == [
        "https://docs.example.com/hull%20121/index.html",
        "https://docs.example.com/hull%20121/parts.txt",
        "https://docs.example.com/zebra.csv",
    ]
    assert report("out")["account"]["notices"]["not-public"]["count"] == 3


def test_all_is_public_if_its_user_says_so(tree: Path) -> None:
    (tree / "zebra.csv").chmod(0o600)
    convert("pdfs", *BASE, "-o", "out", "--acl", "public")
    assert b"authmethod" not in chunks("out")[0]


def test_a_target_that_cannot_keep_it_shut_stops_the_run(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "zebra.csv").chmod(0o600)
    words = ("--from", "files", "--to", "thunderstone", "--base-url", "https://docs.example.com/")
    code = convert("pdfs", *words, "-o", "out")
    assert code == 3
    assert "acl: none, but the document is secure" in capsys.readouterr().err


def test_a_file_that_is_shut_later_is_sent_again(tree: Path) -> None:
    age(tree)
    convert("pdfs", *STATE, "-o", "one")
    (tree / "zebra.csv").chmod(0o600)
    convert("pdfs", *STATE, "-o", "two")
    assert urls("two") == ["https://docs.example.com/zebra.csv"]
    assert b'authmethod="httpbasic"' in chunks("two")[0]


ACL = b'<record><acl><principal scope="user" access="permit">ida</principal></acl></record>'


def pack(path: Path, *names: str) -> None:
    """Write a zip archive of texts that say their own names."""
    with zipfile.ZipFile(path, "w") as archive:
        list(map(archive.writestr, names, names))


def test_an_empty_folder_is_a_run_of_nothing(here: Path) -> None:
    (here / "none").mkdir()
    code = convert("none", "--from", "files", *BASE, "-o", "out")
    assert (code, report("out")["account"]["read"]) == (0, {})


def test_all_may_be_deleted_where_that_is_wanted(tree: Path) -> None:
    convert("pdfs", *STATE, "-o", "one")
    shutil.rmtree(tree)
    tree.mkdir()
    safe = ("--max-delete-percent", "100", "--min-records", "0")
    code = convert("pdfs", "--from", "files", *STATE, *safe, "-o", "two")
    assert (code, len(urls("two"))) == (0, 5)


def test_files_of_several_folders_may_be_named_in_any_order(here: Path, tree: Path) -> None:
    put(here / "more/rope.txt", b"rope")
    names = ("pdfs/plan.pdf", "more/rope.txt", "pdfs/zebra.csv")
    convert(*names, "--from", "files", *BASE, "-o", "out")
    assert urls("out") == [
        "https://docs.example.com/plan.pdf",
        "https://docs.example.com/zebra.csv",
        "https://docs.example.com/rope.txt",
    ]


def test_two_folders_with_one_path_are_not_one_feed(
    here: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "more/plan.pdf", b"another plan")
    code = convert("pdfs", "more", "--from", "files", *BASE, "-o", "out")
    assert (code, capsys.readouterr().err) == (
        2,
        "feedferry: INPUT: 'plan.pdf' is in 'pdfs' and in 'more', and would have one url;"
        " expected a run for each, with a --base-url of its own\n",
    )


def test_a_file_whose_acl_is_behind_a_link_is_not_sent_without_it(tree: Path) -> None:
    (tree / "plan.pdf.metadata.xml").symlink_to("nowhere.xml")
    code = convert("pdfs", *BASE, "-o", "out")
    assert (code, report("out")["account"]["reject_codes"]) == (1, {"bad-sidecar": 1})
    assert "https://docs.example.com/plan.pdf" not in urls("out")


def test_members_have_the_acl_that_a_sidecar_gives_their_archive(tree: Path) -> None:
    pack(tree / "old.zip", "a.txt", "b.txt")
    put(tree / "old.zip.metadata.xml", ACL)
    convert("pdfs", *BASE, "-o", "out", "--open-archives", "--include", "old.zip/")
    assert len(urls("out")) == 2
    assert chunks("out")[0].count(b">ida</principal>") == 2


def test_members_have_the_acl_of_new_rules_as_well(here: Path, tree: Path) -> None:
    pack(tree / "old.zip", "a.txt")
    age(tree)
    opened = ("--open-archives", "--include", "old.zip/", *STATE)
    acl = put(here / "acl.csv", b"pattern,access,scope,name\n**,permit,group,staff\n")
    convert("pdfs", *opened, "-o", "one")
    convert("pdfs", *opened, "-o", "two", "--acl", acl)
    assert chunks("two")[0].count(b">staff</principal>") == 1


def test_members_are_deleted_when_archives_are_not_opened_any_more(tree: Path) -> None:
    pack(tree / "old.zip", "a.txt")
    age(tree)
    convert("pdfs", *STATE, "-o", "one", "--open-archives")
    convert("pdfs", *STATE, "-o", "two")
    convert("pdfs", *STATE, "-o", "three")
    assert "https://docs.example.com/old.zip/a.txt deleted" in urls("two")
    assert report("three")["account"]["filter_codes"]["archive"] == 1


def test_members_beside_a_rejected_one_are_known(tree: Path) -> None:
    pack(tree / "old.zip", "a.txt", "b.txt", "../c.txt")
    age(tree)
    convert("pdfs", *STATE, "-o", "one", "--open-archives")
    pack(tree / "old.zip", "a.txt", "../c.txt")
    convert("pdfs", *STATE, "-o", "two", "--open-archives")
    (tree / "old.zip").unlink()
    convert("pdfs", *STATE, "-o", "three", "--open-archives")
    assert urls("two") == ["https://docs.example.com/old.zip/b.txt deleted"]
    assert urls("three") == ["https://docs.example.com/old.zip/a.txt deleted"]


def test_a_document_that_became_an_archive_is_deleted(tree: Path) -> None:
    put(tree / "report", b"a plain text")
    age(tree)
    convert("pdfs", *STATE, "-o", "one", "--open-archives")
    pack(tree / "report", "a.txt")
    convert("pdfs", *STATE, "-o", "two", "--open-archives")
    put(tree / "report", b"a plain text")
    convert("pdfs", *STATE, "-o", "three", "--open-archives")
    member = "https://docs.example.com/report/a.txt"
    assert urls("two") == [member, "https://docs.example.com/report deleted"]
    assert urls("three") == ["https://docs.example.com/report", f"{member} deleted"]


def test_a_run_that_was_killed_behind_its_report_moves_the_state(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    age(tree)
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.convert.run.remember", kill)
        killed = convert("pdfs", *STATE, "-o", "out")
    before = chunks("out")
    code = convert("pdfs", *STATE, "-o", "out")
    convert("pdfs", *STATE, "-o", "two")
    assert (killed != 0, code, chunks("out") == before) == (True, 0, True)
    assert report("two")["account"]["written"] == {}


def test_a_run_does_not_go_on_in_the_folder_of_another(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.convert.run.remember", kill)
        convert("pdfs", *STATE, "-o", "out", "-q")
    capsys.readouterr()
    code = convert("pdfs", *STATE, "-o", "out", "--path-metadata")
    assert (code, capsys.readouterr().err) == (
        2,
        "feedferry: -o out: holds chunks of a finished run; expected another folder, or --fresh\n",
    )
