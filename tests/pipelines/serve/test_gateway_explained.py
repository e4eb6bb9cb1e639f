"""`access` and `verify` use the ACLs and groups that a gateway keeps in its spool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateway_nights import HOST, Night, acl, below, page, permit
from support.groups_job import group
from support.rehearsal import xmlgroups
from support.served import run, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with serving(tmp_path / "new") as target:
        yield Night(tmp_path, target.url)


def command(*words: str | Path, exit_code: int = 0) -> str:
    """Run the command; return what it prints."""
    done = run(*map(str, words))
    assert done.returncode == exit_code, done.stderr + done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize("place", [".", "forward"])
def test_the_spool_of_a_gateway_explains_a_document(night: Night, place: str) -> None:
    night.posted(acl("folder/", "ann"), source="folders")
    night.posted(page("folder/a", below("folder/")), page("own", permit("bob")))
    night.forward()
    spool = night.spool.root / place
    words = ("access", "ann", "--state", spool, "--document")
    text = command(*words, f"{HOST}folder/a")
    assert "ann finds the document" in text
    assert f"{HOST}folder/" in text
    assert "a gateway keeps ACLs that arrive alone" in text
    text = command(*words, f"{HOST}own", exit_code=1)
    assert f"nothing is known of {HOST}own" in text
    text = command("access", "bob", *words[2:], f"{HOST}own", "--target", night.url)
    assert "bob finds the document" in text
    text = command("access", "--changes", spool, exit_code=2)
    assert "a gateway keeps no acl-changes" in text
    text = command(*words, f"{HOST}folder/a", "--as-of", "2026-01-01", exit_code=2)
    assert "--as-of: not for a gateway" in text


def test_a_spool_without_kept_acls_is_refused(night: Night) -> None:
    night.posted(page("a"))
    words = "access", "--state", night.spool.root, "--document", f"{HOST}a"
    text = command(*words, exit_code=2)
    assert "no forward/state.acls; expected the spool of a gateway" in text


def test_documents_that_inherit_are_compared_with_the_index(night: Night) -> None:
    night.posted(acl("folder/", "ann"), page("old"), source="folders", feedtype="full")
    night.posted(acl("folder/", "ann"), source="folders", feedtype="full")
    night.posted(page("folder/a", below("folder/")), page("b"))
    night.posted(page("folder/c", below("other/")))
    night.forward()
    words = "verify", night.spool.root, "--against", night.url
    text = command(*words)
    assert "3 same, 0 missing, 0 not deleted, 0 different" in text
    night.posted(acl("folder/", "bob"), source="folders")
    text = command(*words, exit_code=1)
    assert f"{HOST}folder/a" in text


def test_groups_of_a_spool_are_those_of_its_groups_feeds(night: Night) -> None:
    night.spool.feed(b"no feed")
    night.spool.groups(xmlgroups(group("staff", "ann", "bob"), group("board", "bob")).encode())
    night.spool.groups(xmlgroups(group("staff", "ann")).encode())
    night.spool.groups(xmlgroups(group("hr", "bob")).encode(), "old")
    night.spool.cleanup("old")
    words = "access", "bob", "--groups-feed", night.spool.root
    text = command(*words)
    assert "gs:Default:board" in text
    assert not any(f"gs:Default:{name}" in text for name in ("staff", "hr"))
    night.forward()
    assert command(*words) == text
    night.spool.groups(b"<xmlgroups><membership><x></membership></xmlgroups>", feedtype="full")
    assert command(*words) == text
    night.acls.unlink()
    assert "of which a membership was set aside" in command(*words, exit_code=2)
