"""A state is changed only as a whole, only if the new one is right, and never without a copy."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.locks import locked_state
from feedferry.schemas.acl import Acl, Scope
from feedferry.schemas.errors import FatalError
from feedferry.schemas.membership import Member
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.transforms.steps.kept_acls import KeptAcl, read_kept, replace_kept
from feedferry.transforms.steps.stated.group_log import GroupLine, GroupMembers
from feedferry.transforms.steps.stated.group_store import export_groups
from feedferry.transforms.steps.stated.stated_store import (
    StatedDocument,
    count_stated,
    export_stated,
    import_stated,
)
from feedferry.transforms.storage.state import StateHead, open_state, update_state

STATE = Path("runs/people/state")
MARK = '{"type":"NAIVE","text":"2026-11-21T08:30:00"}'
HEAD = StateHead(source="people.yaml", rules="r", mark=MARK, listed_at_ns=10**18, run="work")


@pytest.fixture(autouse=True)
def state(here: Path) -> None:
    """A state with two rows, after one update."""
    STATE.parent.mkdir(parents=True)
    rows = [SentDocument(key=key, url=f"http://x/{key}", digest="d") for key in "ab"]
    update_state(STATE, [StateChange(document=row) for row in rows], before=0, stamp=HEAD)


def head() -> StateHead:
    with open_state(STATE) as opened:
        return opened.head


def backups() -> list[Path]:
    return sorted(STATE.parent.glob("state.backup-*"))


def exported() -> list[Any]:
    assert main(["state", "export", "people", "-o", "people.jsonl"]) == 0
    return [json.loads(line) for line in Path("people.jsonl").read_text().splitlines()]


def refused(capsys: pytest.CaptureFixture[str], lines: bytes) -> str:
    """Import what is refused; return the message, after a check that nothing has changed."""
    Path("bad.jsonl").write_bytes(lines)
    before = STATE.read_bytes()
    assert main(["state", "import", "people", "bad.jsonl"]) == 2
    assert (STATE.read_bytes(), backups()) == (before, [])
    assert [path.name for path in STATE.parent.iterdir()] == ["state"]
    return capsys.readouterr().err


def test_a_state_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", "people"]) == 0
    assert capsys.readouterr().out == (
        "state      runs/people/state\n"
        "source     people.yaml\n"
        "documents  2\n"
        "updates    1\n"
        "run        work\n"
        "watermark  2026-11-21T08:30:00\n"
        "listed     2001-09-09T01:46:40+00:00\n"
    )
    assert main(["state", "show", str(STATE), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 2


def test_a_watermark_is_set_in_a_new_generation_and_the_state_before_it_is_kept() -> None:
    assert main(["state", "set", "people", "--watermark", "2026-11-01T00:00:00.5"]) == 0
    assert head().mark == '{"type":"NAIVE","text":"2026-11-01T00:00:00.5"}'
    assert (head().generation, head().documents, head().run) == (2, 2, "")
    [backup] = backups()
    with open_state(backup) as before:
        assert before.head.mark == MARK


@pytest.mark.parametrize("text", ["yesterday", "2026-11-01T00:00:00Z", "17", "2026-13-01"])
def test_a_watermark_of_another_form_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "set", "people", "--watermark", text]) == 2
    assert capsys.readouterr().err == (
        f"feedferry: --watermark: {text!r}; expected a value such as '2026-11-21T08:30:00'\n"
    )
    assert (head().mark, backups()) == (MARK, [])


def test_an_update_by_a_run_that_began_before_a_change_is_refused() -> None:
    main(["state", "set", "people", "--watermark", "2026-11-01T00:00:00"])
    with pytest.raises(FatalError, match="generation 2; expected 1: another run has updated"):
        update_state(STATE, [], before=1, stamp=HEAD)


def test_a_cleared_state_is_kept_as_a_backup() -> None:
    assert main(["state", "clear", "people"]) == 0
    assert (STATE.exists(), len(backups())) == (False, 1)


def test_a_state_that_was_exported_is_imported_with_the_same_content(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = exported()
    assert lines[0]["version"] == 1
    assert [line["key"] for line in lines[1:]] == ["a", "b"]
    main(["state", "clear", "people"])
    assert main(["state", "import", "people", "people.jsonl"]) == 0
    assert capsys.readouterr().out.endswith("imported   2 documents of people.yaml\n")
    assert exported() == [
        {"version": 1, "state": {**lines[0]["state"], "generation": 2, "run": ""}},
        *lines[1:],
    ]


def test_a_state_can_be_exported_to_stdout(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["state", "export", "people"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 3


def test_an_export_that_lost_its_last_line_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    exported()
    lines = Path("people.jsonl").read_bytes().splitlines(keepends=True)
    assert "1 documents; expected 2, as the state had" in refused(capsys, b"".join(lines[:-1]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"key":"b"}\n', "bad.jsonl:3: Object missing required field `url`"),
        (b'{"key":"a","url":"u"}\n', "a key twice; expected each document once"),
        (b'{"key":"c","url":"u","sise":1}\n', "bad.jsonl:3: Object contains unknown field `sise`"),
        (b'{"key":"c","ur', "bad.jsonl:3: Input data was truncated"),
        (b"\xff\n", "bad.jsonl:3: "),
    ],
)
def test_a_damaged_line_is_refused_with_its_number(
    line: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exported()
    first = Path("people.jsonl").read_bytes().splitlines(keepends=True)[:2]
    assert message in refused(capsys, b"".join(first) + line)


def test_no_state_is_replaced_while_a_run_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    exported()
    with locked_state(STATE):
        assert main(["state", "import", "people", "people.jsonl"]) == 75
        assert main(["state", "clear", "people"]) == 75
    assert "in use by another run" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["show"], ["set", "--watermark", "1"], ["clear"], ["export"]])
def test_another_file_is_refused_and_kept(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    STATE.write_text("not a database, but notes of mine")
    assert main(["state", *verb, "people"]) == 2
    assert "no state of feedferry" in capsys.readouterr().err
    assert (STATE.exists(), backups()) == (True, [])


ACL = KeptAcl(url="http://x/a", acl=Acl(alone=True), alone=True, number=1, datasource="web")
ACLS = [ACL, KeptAcl(url="http://x/b", alone=True, number=2, datasource="web")]


def test_the_acls_of_a_job_are_shown_exported_and_imported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = STATE.with_name("state.acls")
    replace_kept(kept, ACLS)
    assert main(["state", "show", "people"]) == 0
    assert capsys.readouterr().out.endswith("acls       1\nunknown    1\n")
    head, *lines = exported()
    assert (head["acls"], len(lines)) == (2, 4)
    replace_kept(kept, [ACL])
    assert main(["state", "import", "people", "people.jsonl"]) == 0
    assert [*read_kept(kept)] == ACLS
    assert {path.name.partition(".backup-")[0] for path in STATE.parent.iterdir()} == {
        "state",
        "state.acls",
    }


STAFF = GroupMembers(
    Member(name="staff", scope=Scope.GROUP), (Member(name="ann", scope=Scope.USER),)
)
GROUP = GroupLine("ldap", "Default", "staff", STAFF, STAFF)


def test_the_stated_acls_of_documents_and_groups_are_shown_exported_and_imported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept, digest = STATE.with_name("state.acls"), b"steps"
    replace_kept(kept, ACLS)
    documents = [
        StatedDocument(
            url=f"http://x/{name}", datasource="web", acl=Acl(inherit_from="d"), mapped=b"m"
        )
        for name in "ab"
    ]
    import_stated(kept, documents, [GROUP], digest)
    assert main(["state", "show", "people"]) == 0
    assert capsys.readouterr().out.endswith(
        "acls       1\nunknown    1\nstated     2\ngroups     1\n"
    )
    exported()
    replace_kept(kept, ())
    capsys.readouterr()
    assert main(["state", "import", "people", "people.jsonl"]) == 0
    assert capsys.readouterr().out.endswith(
        "imported   2 documents of people.yaml, 2 ACLs, 1 group\n"
    )
    assert ([*export_stated(kept)], count_stated(kept)) == (documents, (2, digest))
    assert [*export_groups(kept)] == [GROUP]
    assert [*read_kept(kept)] == ACLS


def test_a_job_without_a_state_has_acls_to_clear(capsys: pytest.CaptureFixture[str]) -> None:
    kept = STATE.with_name("state.acls")
    replace_kept(kept, ACLS)
    stated = StatedDocument(url="http://x/a", datasource="web", acl=Acl(), mapped=b"m")
    import_stated(kept, [stated], [GROUP], b"steps")
    STATE.unlink()
    assert main(["state", "show", "people"]) == 0
    assert "documents  0\n" in capsys.readouterr().out
    assert main(["state", "show", str(kept)]) == 0
    assert "documents  0\n" in capsys.readouterr().out
    assert main(["state", "clear", str(STATE)]) == 0
    assert "send all ACLs and documents again" in capsys.readouterr().out
    [backup] = STATE.parent.glob("*.backup-*")
    assert [*read_kept(backup)] == ACLS
    assert [(item.url, item.acl) for item in read_kept(kept)] == [
        ("http://x/a", None),
        ("http://x/b", None),
    ]
    assert [line.stated for line in export_groups(kept)] == [None]
    assert [(item.url, item.acl) for item in export_stated(kept)] == [("http://x/a", None)]
    exported()
    replace_kept(kept, ())
    assert main(["state", "import", "people", "people.jsonl"]) == 0
    assert [item.acl for item in read_kept(kept)] == [None, None]
    assert [item.acl for item in export_stated(kept)] == [None]


def test_acls_of_an_unknown_version_are_removed_by_clear(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = STATE.with_name("state.acls")
    with closing(sqlite3.connect(kept)) as database:
        database.execute("PRAGMA user_version = 1")
    assert main(["state", "show", "people"]) == 2
    fix = f"feedferry state clear {kept} removes it; then send all ACLs and documents again"
    assert f"{kept}: version 1; expected version 3: {fix}" in capsys.readouterr().err
    assert main(["state", "clear", str(kept)]) == 0
    assert "removed, as they could not be read" in capsys.readouterr().out
    assert [path.name.partition("-")[0] for path in sorted(STATE.parent.iterdir())] == [
        "state.acls.backup",
        "state.backup",
    ]


def test_a_run_and_a_change_of_the_acls_of_a_job_exclude_each_other() -> None:
    kept = STATE.with_name("state.acls")
    replace_kept(kept, ACLS)
    STATE.unlink()
    with locked_state(STATE):
        assert main(["state", "clear", "people"]) == 75
    assert kept.exists()


def test_an_import_without_acls_removes_those_of_the_job() -> None:
    exported()
    kept = STATE.with_name("state.acls")
    replace_kept(kept, ACLS)
    assert main(["state", "import", "people", "people.jsonl"]) == 0
    assert not kept.exists()
