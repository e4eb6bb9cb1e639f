"""A folder: 10,000 real files of this system become documents of a GSA, and stay up to date."""

import json
import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest

from feedferry.schemas.run_record import Phase
from support.operators import Operator, appliance, contents, has_receipts, has_spans

pytestmark = pytest.mark.slow

FILES = 10_000
MAX_FILE_BYTES = 16 * 1024
ROOTS = ("/usr/share/doc", "/usr/share", "/usr/lib", "/usr/include")
BASE_URL = "http://docs.example.com/"
JOB = """\
version: 1
job: docs
source:
  type: files
  path: tree
  base_url: {base_url}
  span_bytes: 1MiB
target:
  type: gsa-feed
  url: {url}
  datasource: docs
chunk: {{max_bytes: 1MiB}}
keep: {{runs: 2}}
"""
SLOW = "- {endpoint: xmlfeed, delay: 50ms}\n"


def files_of_this_system() -> Iterator[Path]:
    """Yield small regular files that have a content, in the order of their paths."""
    seen: set[str] = set()
    for root in ROOTS:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                status = os.lstat(path)
                is_small = 0 < status.st_size <= MAX_FILE_BYTES
                if path not in seen and os.path.isfile(path) and not os.path.islink(path):
                    seen.add(path)
                    if is_small and path.isascii() and not has_hidden_part(path):
                        yield Path(path)


def has_hidden_part(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def archives(run: Path) -> set[str]:
    """Return the URLs of the files that a run left out because they are archives."""
    lines = (run / "filtered.jsonl").read_text("utf-8").splitlines()
    left_out = [json.loads(line) for line in lines]
    return {entry["url"] for entry in left_out if entry["code"] == "archive"}


def make_tree(tree: Path) -> None:
    """Copy files of this system to a tree of folders."""
    for _, path in zip(range(FILES), files_of_this_system(), strict=False):
        copy = tree / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def documents(tree: Path) -> dict[str, str | None]:
    """Return the digest of each file by its URL."""
    return {
        BASE_URL + quote(str(path.relative_to(tree))): sha256(path.read_bytes()).hexdigest()
        for path in tree.rglob("*")
        if path.is_file()
    }


def change(tree: Path) -> None:
    """Change 100 files, remove 100 others, add 100."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    for path in files[::100]:
        path.write_bytes(path.read_bytes() + b"\nA line that was added.\n")
    for path in files[50::100]:
        path.unlink()
    (tree / "added").mkdir()
    for number in range(100):
        (tree / "added" / f"{number}.txt").write_text(f"File {number} was added.")


def test_a_folder_is_carried_over_kills_and_then_kept_up_to_date(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    make_tree(tree)
    before = documents(tree)
    scenario = tmp_path / "slow.yaml"
    scenario.write_text(SLOW)
    with appliance(tmp_path / "spool") as gsa:
        text = JOB.format(url=gsa.url, base_url=BASE_URL)
        operator = Operator(tmp_path, "docs", text)
        with gsa.up("--scenario", str(scenario)) as served:
            operator.run_killed(Phase.CONVERT, has_spans(2))
            operator.run_killed(Phase.PUSH, has_receipts(4))
            first = operator.run()
            left_out = archives(operator.runs()[-1])
            held_first = contents(served)
            change(tree)
            second = operator.run()
            held_second = contents(served)
            third = operator.run()

    assert len(before) == FILES
    assert [run.returncode for run in (first, second, third)] == [0, 0, 0], second.stderr
    assert held_first == {url: digest for url, digest in before.items() if url not in left_out}
    assert len(left_out) < FILES / 4
    assert held_second.keys() == documents(tree).keys() - left_out
    assert held_second.items() <= documents(tree).items()
    assert len(operator.runs()) == 2  # a run that found nothing to do is a run
