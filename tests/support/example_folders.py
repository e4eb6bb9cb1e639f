"""The folders of `examples/`, and a shell in one of them."""

from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from shutil import copytree

from support.pages import Terminal
from support.runs import ROOT

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))


def page_of(name: str) -> str:
    """Return the page of an example."""
    return (EXAMPLES / name / "README.md").read_text("utf-8")


@contextmanager
def example_terminal(name: str, folder: Path) -> Iterator[Terminal]:
    """Work in a copy of an example, and end what it has started."""
    copy = copytree(EXAMPLES, folder / "examples")
    files = [path for path in copy.rglob("*") if path.is_file()]
    with ExitStack() as stack, chdir(copy / name):
        yield Terminal(copy / name, files, stack)
