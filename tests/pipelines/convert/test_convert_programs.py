"""Programs as a source by the command line: listed, fetched, authorized, accounted for."""

import sys
from pathlib import Path

import pytest

from support.archives import put
from support.runs import chunks, convert, left, report

HEADER = "GSA Adaptor Data Version 1 [\\n]\\n"
LISTER = f"""\
import sys
ids = "".join(f"doc{{n}}\\n" for n in range(6))
sys.stdout.write("{HEADER}id-list\\n" + ids + "\\nid=old\\ndelete\\n")
sys.stdout.write("id=missing\\nid=same\\nid=boom\\nlock\\n")
"""
RETRIEVER = f"""\
import sys
docid = sys.argv[1]
if docid == "boom":
    sys.stderr.write("no such table")
    sys.exit(3)
sys.stdout.write("{HEADER}id=" + docid + "\\n")
if docid in ("missing", "same"):
    sys.stdout.write("not-found\\n" if docid == "missing" else "up-to-date\\n")
else:
    sys.stdout.write("mime-type=text/plain\\ncontent\\nhello " + docid + sys.argv[2])
"""
AUTHORIZER = f"""\
import sys
asked = sys.stdin.read().split("\\0")
status = "PERMIT" if "username=tim" in asked else "DENY"
ids = [one for one in asked if one.startswith("id=")]
answers = "".join(one + "\\nauthz-status=" + status + "\\n" for one in ids)
sys.stdout.write("{HEADER}" + answers)
"""
WORDS = ("--from", "command", "--to", "gsa-feed", "--datasource", "wiki", "--jobs", "3")
BASE = ("--base-url", "http://adaptor.example.com/doc/")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def programs(here: Path) -> str:
    """A file that names a lister and a retriever that misbehaves for one document."""
    put(here / "list.py", LISTER.encode())
    put(here / "get.py", RETRIEVER.encode())
    put(here / "may.py", AUTHORIZER.encode())
    return write(here, "")


def write(here: Path, more: str) -> str:
    python = sys.executable
    text = f'lister: ["{python}", list.py]\nretriever: ["{python}", get.py]\nretries: 0\n{more}'
    put(here / "programs.yaml", text.encode())
    return "programs.yaml"


def test_programs_become_content_chunks_and_a_balanced_account(programs: str) -> None:
    code = convert(programs, *WORDS, *BASE, "-o", "out")

    account = report("out")["account"]
    assert code == 1
    assert (account["read"], account["written"], account["rejected"], account["filtered"]) == (
        {"ADD": 9, "DELETE": 1},
        {"ADD": 6, "DELETE": 1},
        {"ADD": 1},
        {"ADD": 2},
    )
    assert account["reject_codes"] == {"program-exit": 1}
    assert account["filter_codes"] == {"not-found": 1, "up-to-date": 1}


def test_a_document_has_its_content_and_its_url(programs: str) -> None:
    convert(programs, *WORDS, *BASE, "-o", "out")

    record = (
        b'<record url="http://adaptor.example.com/doc/doc3" mimetype="text/plain">\n'
        b"<content>hello doc30</content>\n</record>\n"
    )
    assert record in b"".join(chunks("out"))


def test_missing_documents_are_deleted_on_request(programs: str) -> None:
    convert(programs, *WORDS, *BASE, "--not-found", "delete", "-o", "out")

    assert report("out")["account"]["written"] == {"ADD": 6, "DELETE": 2}


def test_answers_of_an_authorizer_become_acls(here: Path, programs: str) -> None:
    users = "users: [{name: tim}, {name: eve}]\n"
    write(here, f'authorizer: ["{sys.executable}", may.py]\n{users}')

    convert(programs, *WORDS, *BASE, "-o", "out")

    acl = (
        b"<acl>\n"
        b'<principal scope="user" access="permit">tim</principal>\n'
        b'<principal scope="user" access="deny">eve</principal>\n'
        b"</acl>\n"
    )
    assert b"".join(chunks("out")).count(acl) == 6


def test_a_lister_that_fails_fails_the_run(
    here: Path, programs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "list.py", LISTER.encode() + b"sys.stderr.write('db down')\nsys.exit(7)\n")

    code = convert(programs, *WORDS, *BASE, "-o", "out")

    assert code == 4
    assert "lister-exit" in capsys.readouterr().err
    assert [name for name in left("out") if name.startswith("chunks")] == []


def test_a_run_that_stopped_goes_on_with_the_same_listing(here: Path, programs: str) -> None:
    words = (*WORDS, *BASE, "--max-rejects", "0", "-o", "out")
    stopped = convert(programs, *words)
    put(here / "get.py", RETRIEVER.replace('docid == "boom"', "False").encode())
    put(here / "list.py", b"raise SystemExit(9)")

    assert (stopped, convert(programs, *words)) == (3, 0)
    assert report("out")["account"]["written"] == {"ADD": 7, "DELETE": 1}


def test_a_wrong_key_is_refused_before_anything_runs(
    here: Path, programs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here, "timout: 3s\n")

    code = convert(programs, *WORDS, *BASE, "-o", "out")

    assert code == 2
    assert "did you mean 'timeout'?" in capsys.readouterr().err


def test_partly_fetched_documents_make_no_full_feed(
    programs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(programs, *WORDS, *BASE, "--feedtype", "full", "-o", "out")

    assert (code, capsys.readouterr().err) == (
        3,
        "feedferry: programs.yaml: a full feed of 'wiki' without 2 documents or parts of the"
        " input (unreadable, too large, rejected or up to date); expected all, as it deletes what"
        " it leaves out; --accept-holes goes on without them, --feedtype incremental deletes"
        " nothing\n",
    )
