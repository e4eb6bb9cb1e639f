"""Trees of files on the command line, and the changes that a second run sends."""

import io
import json
import os
import shutil
import sqlite3
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import gsa_feed, put
from support.runs import chunks, column, convert, left, report

PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n"
URL = "https://docs.example.com/"
BASE = ("--base-url", URL, "--datasource", "pdfs", "--to", "gsa-feed")
STATE = (*BASE, "--state", "pdfs.state")
OPENED = (*STATE, "--open-archives")
ACL = b'<record><acl><principal scope="user" access="permit">ida</principal></acl></record>'

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def tree(here: Path) -> Path:
    """Return a tree of five documents, and a few files that are no documents."""
    put(here / "pdfs/plan.pdf", PDF)
    put(here / "pdfs/plan.pdf.meta.json", b'{"Author": "Bjorn Halvorsen"}')
    put(here / "pdfs/hull 121/parts.txt", b"keel, ribs, planks")
    put(here / "pdfs/hull 121/index.html", b"<html><title>Hull</title></html>")
    put(here / "pdfs/notes/2026/rope & sail.txt", "Tau und Segel, größer".encode())
    put(here / "pdfs/notes/empty.txt", b"")
    put(here / "pdfs/notes/~$draft.docx", b"lock")
    put(here / "pdfs/.hidden", b"x")
    put(here / "pdfs/zebra.csv", b"a,b\n1,2\n")
    age(here / "pdfs")
    return here / "pdfs"


def run(*flags: str, name: str = "out", source: str = "pdfs") -> list[str]:
    """Convert a tree; return the URLs of the records of all chunks, as in `urls`."""
    convert(source, *flags, "-o", name)
    return urls(name)


def urls(folder: str) -> list[str]:
    """Return the paths of the records of all chunks; a deletion has a minus before it."""
    text = b"".join(chunks(folder)).decode()
    records = (record.split(">")[0] for record in text.split('<record url="')[1:])
    return [
        ("-" if 'action="delete"' in record else "") + record.split('"')[0].removeprefix(URL)
        for record in records
    ]


def touch(path: Path, text: bytes) -> None:
    """Write a file, with another time of change than before."""
    path.write_bytes(text)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 60 * 10**9))


def age(tree: Path) -> None:
    """Set the times of all files so far back that the clock cannot have the same tick."""
    for path in tree.rglob("*"):
        os.utime(path, ns=(0, 1_700_000_000 * 10**9))


def pack(path: Path, *names: str) -> None:
    """Write a zip archive of texts that contain their own names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)


def put_bad(tree: Path) -> None:
    """Put a document that is rejected."""
    put(tree / "bad.pdf", PDF)
    put(tree / "bad.pdf.meta.json", b"[1]")
    age(tree)


def test_a_folder_of_documents_needs_no_format(tree: Path) -> None:
    code = convert("pdfs", *BASE, "-o", "out")
    account = report("out")["account"]
    assert code == 0
    assert account["read"] == {"ADD": 9}
    assert account["written"] == {"ADD": 5}
    assert account["filter_codes"] == {"empty": 1, "hidden": 1, "sidecar": 1, "temporary": 1}
    assert urls("out") == [
        "hull%20121/index.html",
        "hull%20121/parts.txt",
        "notes/2026/rope%20%26%20sail.txt",
        "plan.pdf",
        "zebra.csv",
    ]
    lines = [json.loads(line) for line in Path("out/filtered.jsonl").read_text().splitlines()]
    assert [(line["code"], line["url"].removeprefix(URL)) for line in lines] == [
        ("hidden", ".hidden"),
        ("empty", "notes/empty.txt"),
        ("temporary", "notes/~%24draft.docx"),
        ("sidecar", "plan.pdf.meta.json"),
    ]
    record = (
        b'<record url="https://docs.example.com/plan.pdf" mimetype="application/pdf"'
        b' last-modified="Tue, 14 Nov 2023 22:13:20 GMT">\n<metadata>\n'
        b'<meta name="Author" content="Bjorn Halvorsen"/>\n</metadata>\n'
        b'<content encoding="base64binary">JVBERi0xLjQKJeLjz9MKMSAwIG9iago8PD4+CmVuZG9iago='
        b"</content>\n</record>\n"
    )
    assert record in chunks("out")[0]


def test_archives_are_left_out_or_opened(tree: Path) -> None:
    pack(tree / "old.zip", "inner/deep.txt")
    run(*BASE)
    assert report("out")["account"]["filter_codes"]["archive"] == 1
    assert "old.zip/inner/deep.txt" in run(*BASE, "--open-archives", name="opened")


def test_a_folder_of_feeds_is_still_read_as_feeds(here: Path) -> None:
    put(here / "feeds/a.xml", gsa_feed('<record url="http://a.example.com/" action="delete"/>'))
    assert convert("feeds", "--to", "jsonl", "-o", "out") == 0
    assert column("out", "records") == [{"DELETE": 1}]


def test_a_folder_of_feeds_and_other_files_is_refused(
    here: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("plan.pdf", "plan.pdf.meta.json", "zebra.csv"):
        (tree / name).unlink()
    put(tree / "a.xml", gsa_feed())
    code = convert("pdfs", *BASE, "-o", "out")
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("feedferry: INPUT: 'pdfs' holds feeds (a.xml) and other files (")
    assert error.endswith(
        "expected --from files, to take each file as a document, or --from and the format of the"
        " feeds\n"
    )


def test_a_second_run_sends_nothing_and_a_refresh_everything(tree: Path) -> None:
    run(*STATE, name="one")
    code = convert("pdfs", *STATE, "-o", "two")
    account = report("two")["account"]
    assert (code, account["written"], left("two/chunks")) == (0, {}, [])
    assert account["filter_codes"]["unchanged"] == 5
    assert len(run(*STATE, "--refresh", name="three")) == 5


def test_a_second_run_sends_the_changes_and_nothing_else(tree: Path) -> None:
    run(*STATE, name="one")
    touch(tree / "zebra.csv", b"a,b\n1,3\n")
    touch(tree / "plan.pdf", PDF)
    (tree / "hull 121/parts.txt").unlink()
    assert run(*STATE, name="two") == ["-hull%20121/parts.txt", "zebra.csv"]
    touch(tree / "plan.pdf.meta.json", b'{"Author": "Ida"}')
    assert run(*STATE, name="three") == ["plan.pdf"]


def test_content_that_is_replaced_with_equal_size_and_time_is_sent(tree: Path) -> None:
    (tree / "plan.pdf.meta.json").unlink()
    pack(tree / "old.zip", "a.txt")
    put(tree / "notes/2026/rope & sail.txt.meta.json", b'{"Author": "Ida"}')
    age(tree)
    run(*OPENED, name="one")
    put(tree / "zebra.csv", b"a,b\n9,9\n")
    put(tree / "notes/2026/rope & sail.txt.meta.json", b'{"Author": "Tim"}')
    packed = (tree / "old.zip").read_bytes()
    with zipfile.ZipFile(tree / "old.zip", "w") as archive:
        archive.writestr("a.txt", "b.txt")
    assert len((tree / "old.zip").read_bytes()) == len(packed)
    age(tree)
    second = run(*OPENED, name="two")
    assert second == ["notes/2026/rope%20%26%20sail.txt", "old.zip/a.txt", "zebra.csv"]
    assert run(*OPENED, name="three") == []


def test_a_chmod_or_a_restored_backup_costs_a_read_and_sends_nothing(
    here: Path, tree: Path
) -> None:
    run(*STATE, name="one")
    (tree / "zebra.csv").chmod(0o664)
    shutil.copytree(tree, here / "backup")  # with the times of the files
    shutil.rmtree(tree)
    shutil.move(here / "backup", tree)
    assert run(*STATE, name="two") == ["plan.pdf"]  # its sidecar has no digest in the state
    assert report("two")["account"]["filter_codes"]["unchanged"] == 4
    assert run(*STATE, name="three") == []


def test_a_state_of_an_earlier_release_costs_a_read_and_sends_nothing(tree: Path) -> None:
    run(*STATE, name="one")
    with closing(sqlite3.connect("pdfs.state")) as state, state:
        state.execute("UPDATE known SET modified_ns = 1700000000000000000")  # the mtime
    put(tree / "zebra.csv", b"a,b\n9,9\n")
    os.utime(tree / "zebra.csv", ns=(0, 1_700_000_000 * 10**9))
    assert run(*STATE, name="two") == ["zebra.csv"]
    assert run(*STATE, name="three") == []


def test_more_deletions_than_are_safe_stop_the_run_until_they_are_allowed(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*STATE, name="one")
    for name in ("plan.pdf", "plan.pdf.meta.json", "zebra.csv"):
        (tree / name).unlink()
    assert convert("pdfs", *STATE, "-o", "two") == 3
    assert "--max-delete-percent" in capsys.readouterr().err
    assert not Path("two/chunks").exists()
    deletions = run(*STATE, "--max-delete-percent", "40", name="three")
    assert deletions == ["-plan.pdf", "-zebra.csv"]


def test_all_documents_can_be_deleted_on_demand(tree: Path) -> None:
    run(*STATE, name="one")
    shutil.rmtree(tree)
    tree.mkdir()
    safe = ("--max-delete-percent", "100", "--min-records", "0")
    assert len(run("--from", "files", *STATE, *safe, name="two")) == 5


def test_a_run_that_stopped_does_not_change_the_state(tree: Path) -> None:
    put_bad(tree)
    assert convert("pdfs", *STATE, "-o", "one", "--max-rejects", "0") == 3
    (tree / "bad.pdf.meta.json").unlink()
    assert len(run(*STATE, name="two")) == 6


@pytest.mark.parametrize(("gone", "remains"), [("A.txt", b"of a"), ("a.txt", b"of A")])
def test_of_files_whose_urls_become_one_the_file_that_remains_is_sent_again(
    here: Path, gone: str, remains: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "feedferry.transforms.sources.tree.file_changes._YOUNG_NS", 0
    )  # of change times
    Path("names").mkdir()
    for name in ("A.txt", "a.txt", "b.txt"):
        put(here / "names" / name, f"of {name[0]}".encode())
    age(here / "names")
    rule = "[['re:(.*/)A(.*)', '\\1a\\2']]"
    put(here / "steps.yaml", f"transform: [{{urls: {{rewrite: {rule}}}}}]\n".encode())
    flags = (*STATE, "--transform", "steps.yaml", "--max-delete-percent", "100")
    run(*flags, source="names", name="first")
    assert run(*flags, source="names", name="second") == []
    (here / "names" / gone).unlink()
    assert run(*flags, source="names", name="third") == ["a.txt"]
    assert remains in chunks("third")[0]
    assert run(*flags, source="names", name="fourth") == []


def test_a_rejected_file_is_read_again(tree: Path) -> None:
    put_bad(tree)
    assert convert("pdfs", *STATE, "-o", "one") == 1
    assert convert("pdfs", *STATE, "-o", "two") == 1
    assert report("two")["account"]["reject_codes"] == {"bad-sidecar": 1}


def test_another_table_of_acls_sends_all_documents_again(here: Path, tree: Path) -> None:
    acl = ("--acl", put(here / "acl.csv", b"pattern,access,scope,name\n**,permit,group,staff\n"))
    run(*STATE, *acl, name="one")
    put(here / "acl.csv", b"pattern,access,scope,name\n**,deny,group,staff\n")
    assert len(run(*STATE, *acl, name="two")) == 5
    assert b'access="deny">staff</principal>' in chunks("two")[0]


def test_another_base_url_moves_all_documents(tree: Path) -> None:
    run(*STATE, name="one")
    new = ("--base-url", "https://new.example.com/", "--max-delete-percent", "100")
    urls = run(*STATE, *new, name="two")
    assert (urls[0], urls[5]) == (
        "-hull%20121/index.html",
        "https://new.example.com/hull%20121/index.html",
    )


def test_a_full_feed_without_a_rejected_file_is_stopped(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_bad(tree)
    assert convert("pdfs", *BASE, "-o", "out", "--feedtype", "full") == 3
    assert "without 1 document or part of the input, as pdfs" in capsys.readouterr().err


def test_a_file_that_others_may_not_read_is_not_made_public(tree: Path) -> None:
    (tree / "zebra.csv").chmod(0o640)
    (tree / "hull 121").chmod(0o750)
    run(*BASE)
    secure = [
        record.split('"')[1].removeprefix(URL)
        for record in chunks("out")[0].decode().split("<record ")
        if 'authmethod="httpbasic"' in record
    ]
    assert secure == ["hull%20121/index.html", "hull%20121/parts.txt", "zebra.csv"]
    assert report("out")["account"]["notices"]["not-public"]["count"] == 3
    run(*BASE, "--acl", "public", name="public")
    assert b"authmethod" not in chunks("public")[0]


def test_a_target_that_cannot_keep_a_file_secure_stops_the_run(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "zebra.csv").chmod(0o600)
    code = convert(
        "pdfs", "--from", "files", "--to", "thunderstone", "--base-url", URL, "-o", "out"
    )
    assert code == 3
    assert "acl: none, but the document is secure" in capsys.readouterr().err


def test_a_file_that_is_closed_later_is_sent_again(tree: Path) -> None:
    run(*STATE, name="one")
    (tree / "zebra.csv").chmod(0o600)
    assert run(*STATE, name="two") == ["zebra.csv"]
    assert b'authmethod="httpbasic"' in chunks("two")[0]


def test_a_file_whose_acl_cannot_be_read_is_not_sent_without_it(tree: Path) -> None:
    (tree / "plan.pdf.metadata.xml").symlink_to("nowhere.xml")
    put(tree / "zebra.csv.meta.yaml", b"google:aclusers: [ida")
    assert convert("pdfs", *BASE, "-o", "out") == 1
    assert report("out")["account"]["reject_codes"] == {"bad-sidecar": 2}
    assert not {"plan.pdf", "zebra.csv"} & set(urls("out"))


def test_members_have_the_acl_of_their_archive(here: Path, tree: Path) -> None:
    pack(tree / "old.zip", "a.txt", "b.txt")
    put(tree / "old.zip.metadata.xml", ACL)
    opened = ("--open-archives", "--include", "old.zip/", *STATE)
    assert len(run(*opened, name="one")) == 2
    assert chunks("one")[0].count(b">ida</principal>") == 2
    (tree / "old.zip.metadata.xml").unlink()
    acl = put(here / "acl.csv", b"pattern,access,scope,name\n**,permit,group,staff\n")
    run(*opened, "--acl", acl, name="two")
    assert chunks("two")[0].count(b">staff</principal>") == 2


def test_members_are_deleted_when_their_archive_is_no_longer_opened(tree: Path) -> None:
    pack(tree / "old.zip", "a.txt")
    age(tree)
    run(*OPENED, name="one")
    assert "-old.zip/a.txt" in run(*STATE, name="two")
    run(*STATE, name="three")
    assert report("three")["account"]["filter_codes"]["archive"] == 1


def test_a_run_that_was_killed_after_its_report_is_finished_by_the_same_command_only(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("feedferry.pipelines.job.run.engine.remember", kill)
        assert convert("pdfs", *STATE, "-o", "out") != 0
    before = chunks("out")
    capsys.readouterr()
    assert convert("pdfs", *STATE, "-o", "out", "--path-metadata") == 2
    assert capsys.readouterr().err == (
        "feedferry: -o out: holds chunks of a finished run; expected another folder, or --fresh\n"
    )
    assert convert("pdfs", *STATE, "-o", "out") == 0
    assert chunks("out") == before
    assert run(*STATE, name="two") == []


def test_members_of_a_tar_archive_whose_names_are_not_utf_8_are_rejects(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "pdfs").mkdir()
    with tarfile.open("pdfs/a.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        for name in ("übung.txt", "plan.txt"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"text"))
        link = tarfile.TarInfo("brücke.txt")
        link.type = tarfile.SYMTYPE
        archive.addfile(link)
    for night in ("first", "second"):
        assert convert("pdfs", *OPENED, "-o", night) == 1
        account = report(night)["account"]
        assert account["reject_codes"] == {"file-name": 1}
        assert account["filter_codes"]["no-file"] == 1
        [sample] = account["reject_samples"]["file-name"]
        assert sample["key"] == r"a.tar/\udcfcbung.txt"
    assert urls("first") == ["a.tar/plan.txt"]
    assert main(["plan", "pdfs", *OPENED, "--state", "other", "--progress", "none"]) == 1
    assert "reject    file-name: pdfs: a.tar/\\udcfcbung.txt" in capsys.readouterr().out
