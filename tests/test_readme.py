"""What the README shows is what happens; an example needs those before it, so all are run.

In a block of `console`, a line that begins with `$ feedferry` is run, in the order of the page and
in one folder that holds the bundled sample as `archive/` and as `pipelines/sample/`. Lines below a
command are all that it prints on stdout; where there are none, it may print anything.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.cli import main
from runs import ROOT, keep_levels, report

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ feedferry (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
README = (ROOT / "README.md").read_text("utf-8")


class Example(NamedTuple):
    """A command, and what the page says that it prints."""

    words: tuple[str, ...]
    printed: str


def examples() -> Iterator[Example]:
    for block in BLOCK.findall(README):
        for command, printed in COMMAND.findall(block):
            yield Example(tuple(shlex.split(command)), printed)


EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "pipelines" / "sample", folder / "archive")
    shutil.copytree(ROOT / "pipelines" / "sample", folder / "pipelines" / "sample")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        yield folder


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(example.words))
def test_an_example_of_the_readme_does_what_it_shows(
    example: Example, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(example.words)
    out, err = capsys.readouterr()
    assert (code in {0, 1}, out) == (True, example.printed or out), err


def test_the_readme_has_examples() -> None:
    assert {example.words[0] for example in EXAMPLES} == {"convert", "formats"}


def test_the_readme_converts_the_bundled_sample_with_a_balanced_account(folder: Path) -> None:
    args = ("archive", "-o", "balanced", "--to", "thunderstone", "--accept-loss", "acl", "-q")
    main(["convert", *args])

    account = report(folder / "balanced")["account"]
    went = [sum(account[name].values()) for name in ("written", "rejected", "filtered")]
    assert sum(account["read"].values()) == sum(went)
