"""Files of a tree that others may not read stay closed: by links, and while a run goes on."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.archives import put
from support.runs import chunks, convert, report

URL = "https://docs.example.com/"
BASE = ("--from", "files", "--base-url", URL, "--datasource", "docs", "--to", "gsa-feed")
STATE = (*BASE, "--state", "docs.state")
LINKS = (*STATE, "--follow-links")
POSIX = (*LINKS, "--acl", "posix", "--acl-everyone", "everyone")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def tree(here: Path) -> Path:
    """Return a tree with links to files in two folders that are open."""
    put(here / "docs/inner/deep/plan.txt", b"plan")
    put(here / "docs/open.txt", b"open")
    (here / "docs/to-file.txt").symlink_to("inner/deep/plan.txt")
    (here / "docs/to-folder").symlink_to("inner/deep")
    (here / "docs/to-world.txt").symlink_to("/etc/passwd")
    age(here / "docs")
    return here / "docs"


def age(tree: Path) -> None:
    for path in tree.rglob("*"):
        os.utime(path, ns=(0, 1_700_000_000 * 10**9), follow_symlinks=False)


def sent(name: str, *flags: str) -> dict[str, bool]:
    """Convert the tree; return the paths of its records, and whether each is open to all."""
    convert("docs", *flags, "-o", name)
    records = re.split('<(?:record|acl) url="', b"".join(chunks(name)).decode())[1:]
    is_posix = "--acl" in flags
    return {
        record.split('"')[0].removeprefix(URL): (
            ">everyone</principal>" in record if is_posix else "authmethod" not in record
        )
        for record in records
    }


ALL = {
    "inner/deep/plan.txt": True,
    "open.txt": True,
    "to-file.txt": True,
    "to-folder/plan.txt": True,
    "to-world.txt": True,
}
CLOSED = {"inner/deep/plan.txt": False, "to-file.txt": False, "to-folder/plan.txt": False}


@pytest.mark.parametrize("flags", [LINKS, POSIX])
@pytest.mark.parametrize("folder", ["inner", "inner/deep"])
def test_a_link_to_a_file_in_a_closed_folder_is_closed_on_each_night(
    tree: Path, flags: tuple[str, ...], folder: str
) -> None:
    assert sent("first", *flags) == ALL
    (tree / folder).chmod(0o700)
    assert sent("second", *flags) == CLOSED
    assert sent("third", *flags) == {}
    (tree / folder).chmod(0o755)
    assert sent("fourth", *flags) == dict.fromkeys(CLOSED, True)


def test_a_link_out_of_the_tree_is_closed_by_any_folder_of_its_target(
    here: Path, tree: Path
) -> None:
    put(here / "outside/secret.txt", b"secret")
    (here / "outside").chmod(0o700)
    (tree / "to-secret.txt").symlink_to(here / "outside/secret.txt")
    assert sent("first", *LINKS) == {**ALL, "to-secret.txt": False}
    assert report("first")["account"]["notices"]["not-public"]["count"] == 1


def test_a_folder_that_inherits_is_sent_again_when_a_folder_of_its_real_path_is_closed(
    tree: Path,
) -> None:
    flags = (*LINKS, "--acl", "posix-inherited", "--acl-everyone", "everyone")
    assert sent("first", *flags)["to-folder/"]
    (tree / "inner").chmod(0o700)
    second = sent("second", *flags)
    assert second == {
        "inner/": False,
        "to-file.txt": False,
        "to-folder/": False,
        "to-folder/plan.txt": False,
    }


@pytest.mark.parametrize("closed", ["open.txt", "inner"])
def test_a_file_that_is_closed_after_a_kill_is_closed_when_the_run_goes_on(
    here: Path, tree: Path, closed: str
) -> None:
    text = str(here / "kill_after_the_listing.py")
    put(here / "kill_after_the_listing.py", KILLED)
    words = ["convert", "docs", *STATE, "-o", "out"]
    killed = subprocess.run([sys.executable, text, *words], cwd=here, check=False)
    assert killed.returncode == -signal.SIGKILL
    (tree / closed).chmod(0o700)
    results = sent("out", *STATE)
    assert results == {
        "inner/deep/plan.txt": closed != "inner",
        "open.txt": closed != "open.txt",
    }
    assert set(sent("second", *STATE).values()) <= {False}
    (tree / closed).chmod(0o755)
    assert set(sent("third", *STATE).values()) == {True}


KILLED = b"""
import os
import signal
import sys

from feedferry.pipelines.cli.main import main
from feedferry.transforms.sources.tree.documents import read


def killed(*_: object, **__: object) -> object:
    os.kill(os.getpid(), signal.SIGKILL)


read.read_tree = killed
main(sys.argv[1:])
"""
"""A run that is killed after the listing and before the first file is read."""
