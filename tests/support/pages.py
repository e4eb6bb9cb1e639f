"""What a page of documentation shows: files, and commands with what they print.

A block with a title, as ```` ```sh title="list.sh" ````, is a file of that name, which is there
before the first command of the page; one of `sh` can be run. In a block of `console`, a line that
begins with `$ feedferry` is run and one with `$ cat` prints a file, in the order of the page and in
one folder that holds `docs/`, and the bundled sample as `archive/` and as `pipelines/sample/`.
Lines below a command are all that it prints on stdout; where there are none, it may print anything.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.cli.main import main
from support.runs import ROOT

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (feedferry|cat) (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_FILE = re.compile(r'^```(\w+) title="([\w./-]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A command, and what the page says that it prints."""

    program: str
    words: tuple[str, ...]
    printed: str


def read_page(name: str) -> str:
    """Return the text of a page, by its path below the root."""
    return (ROOT / name).read_text("utf-8")


def examples(page: str) -> Iterator[Example]:
    """Yield the commands of a page, in its order."""
    for block in _BLOCK.findall(page):
        for program, words, printed in _COMMAND.findall(block):
            yield Example(program, tuple(shlex.split(words)), printed)


def run(example: Example) -> int:
    """Run a command in this process; return its exit code."""
    if example.program == "feedferry":
        return main(example.words)
    sys.stdout.write("".join(Path(name).read_text("utf-8") for name in example.words))
    return 0


@contextmanager
def laid_out(page: str, folder: Path) -> Iterator[Path]:
    """Stand in a folder with all that the examples of a page need."""
    shutil.copytree(ROOT / "pipelines" / "sample", folder / "archive")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "pipelines" / "sample", folder / "pipelines" / "sample")
    for language, name, text in _FILE.findall(page):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if language == "sh":
            path.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        yield folder
