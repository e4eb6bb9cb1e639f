"""Programs as a source by the command line: listed, fetched, authorized, accounted for."""

import sys
from pathlib import Path

import pytest

from support.archives import put
from support.runs import convert, left, report

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
WORDS = ("--from", "adaptor", "--to", "gsa-feed", "--datasource", "wiki", "--jobs", "3")
BASE = ("--base-url", "http://adaptor.example.com/doc/")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def programs(here: Path) -> str:
    """A file that names a lister and a retriever that misbehaves for one document."""
    put(here / "list.py", LISTER.encode())
    put(here / "get.py", RETRIEVER.encode())
    python = sys.executable
    text = f'lister: ["{python}", list.py]\nretriever: ["{python}", get.py]\nretries: 0\n'
    return put(Path("programs.yaml"), text.encode())


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


def test_a_lister_that_fails_fails_the_run(
    here: Path, programs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "list.py", LISTER.encode() + b"sys.stderr.write('db down')\nsys.exit(7)\n")

    code = convert(programs, *WORDS, *BASE, "-o", "out")

    assert code == 4
    assert "lister-exit" in capsys.readouterr().err
    assert [name for name in left("out") if name.startswith("chunks")] == []


def test_a_stopped_run_is_resumed_with_the_same_listing(here: Path, programs: str) -> None:
    words = (*WORDS, *BASE, "--max-rejects", "0", "-o", "out")
    stopped = convert(programs, *words)
    put(here / "get.py", RETRIEVER.replace('docid == "boom"', "False").encode())
    put(here / "list.py", b"raise SystemExit(9)")

    assert (stopped, convert(programs, *words)) == (3, 0)
    assert report("out")["account"]["written"] == {"ADD": 7, "DELETE": 1}


def test_a_full_feed_without_some_documents_stops_the_run(
    programs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(programs, *WORDS, *BASE, "--feedtype", "full", "-o", "out")

    assert (code, capsys.readouterr().err) == (
        3,
        "feedferry: programs.yaml: a full feed of 'wiki' without 2 documents or parts of the"
        " input, as programs.yaml (byte 103): exit code 3; expected 0; stderr ends 'no such table';"
        " expected all, as it deletes what it leaves out; --accept-holes goes on without them,"
        " --feedtype incremental deletes nothing; feedferry rejects accept and --accepted-rejects"
        " go on without these only\n",
    )
