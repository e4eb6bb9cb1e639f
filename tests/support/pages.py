r"""What a page of documentation shows: files, and commands with what they print.

A block with a title, as ```` ```sh title="list.sh" ````, is a file of that name, which is there
before the first command of the page; one of `sh` can be run. In a block of `console`, each line
that begins with `$` is run by `run`, in the order of the page and in one folder that holds `docs/`,
and the bundled sample as `archive/` and as `pipelines/sample/`. A command that ends with `\` goes
on in the next line. Lines below a command are all that it prints on stdout, where `…` stands for
any text of a line, and the last line may have no end; where there are none, it may print anything.
A command ends with 0 or 1, or as its comment `# exit code 75` says.

`$ feedferry serve … --port 19900 &` starts a receiver until the end of the page. It listens at a
free port: `127.0.0.1:19900` in files, in later commands and in what they print means its address.
A page with a command `psql` has a new database of PostgreSQL at `db.example.com/people`.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from feedferry.pipelines.cli.main import main
from support.databases import PASSWORD, postgresql, postgresql_programs
from support.runs import ROOT

FEEDFERRY = Path(sys.executable).with_name("feedferry")

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_FILE = re.compile(r'^```(\w+) title="([\w./-]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A command, and what the page says that it prints."""

    command: str
    printed: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command, comments=True)

    @property
    def exit_codes(self) -> set[int]:
        """Return the exit codes with which the command may end."""
        stated = re.search(r"# exit code (\d+)$", self.command)
        return {int(stated[1])} if stated else {0, 1}

    def is_printed(self, out: str) -> bool:
        """Whether the page shows this output."""
        pattern = re.escape(self.printed).replace("…", ".*")
        lines = out if out.endswith("\n") else f"{out}\n"
        return not self.printed or re.fullmatch(pattern, lines) is not None


def read_page(name: str) -> str:
    """Return the text of a page, by its path below the root."""
    return (ROOT / name).read_text("utf-8")


def examples(page: str) -> Iterator[Example]:
    """Yield the commands of a page, in its order."""
    for block in _BLOCK.findall(page):
        for command, printed in _COMMAND.findall(block):
            yield Example(command.replace("\\\n", " "), printed)


class Terminal:
    """The folder in which the examples of a page run, one after another."""

    def __init__(self, folder: Path, files: Sequence[Path], stack: ExitStack) -> None:
        self.folder, self._files, self._stack = folder, files, stack
        self._addresses: dict[str, str] = {}

    def place(self, shown: str, address: str) -> None:
        """Use an address where the page shows another one."""
        self._addresses[shown] = address
        for path in self._files:
            path.write_text(path.read_text("utf-8").replace(shown, address), "utf-8")

    def run(self, example: Example) -> tuple[int, str, str]:
        """Run a command; return its exit code, what it prints on stdout and on stderr."""
        command = example.command
        for shown, address in self._addresses.items():
            command = command.replace(shown, address)
        if command.endswith(" &"):
            code, out, err = self._serve(shlex.split(command)[1:-1])
        else:
            code, out, err = _run_here(command) if _is_plain(example) else _run_in_shell(command)
        for shown, address in self._addresses.items():
            out = out.replace(address, shown)
        return code, out, err

    def check(self, example: Example, *, accept_in: Path | None = None) -> None:
        """Run a command; assert that it prints what the page shows, or write that to the page."""
        code, out, err = self.run(example)
        assert code in example.exit_codes, (example.command, out, err)
        if accept_in is not None and not example.is_printed(out):
            text = accept_in.read_text("utf-8").replace(example.printed, out)
            accept_in.write_text(text, "utf-8")
        else:
            assert example.is_printed(out) or out == example.printed, (example.command, err)

    def _serve(self, words: list[str]) -> tuple[int, str, str]:
        port = words.index("--port") + 1
        shown, words[port] = f"127.0.0.1:{words[port]}", "0"
        process = subprocess.Popen([FEEDFERRY, *words], stdout=subprocess.PIPE, text=True)
        self._stack.callback(_end, process)
        assert process.stdout is not None
        url = process.stdout.readline()
        assert url, "the receiver has not started"
        self.place(shown, url.strip().removeprefix("http://"))
        return 0, url, ""


def _is_plain(example: Example) -> bool:
    """Whether it is a command of ours that needs no shell."""
    return example.words[0] == "feedferry" and not set("|<>$*") & {*example.command}


def _run_here(command: str) -> tuple[int, str, str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main(shlex.split(command, comments=True)[1:])
    return code, _text_of(out), _text_of(err)


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _run_in_shell(command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": f"{FEEDFERRY.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()


@contextmanager
def terminal(page: str, folder: Path) -> Iterator[Terminal]:
    """Stand in a folder with all that the examples of a page need."""
    shutil.copytree(ROOT / "pipelines" / "sample", folder / "archive")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "pipelines" / "sample", folder / "pipelines" / "sample")
    files = [_write(folder / name, text, language) for language, name, text in _FILE.findall(page)]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        opened = Terminal(folder, files, stack)
        if "\n$ psql " in page:
            server = stack.enter_context(postgresql())
            server.execute("", ["CREATE DATABASE people"])
            opened.place("db.example.com/people", f"127.0.0.1:{server.port}/people")
            patch.setenv("PGPASSWORD", PASSWORD)
            patch.setenv("PATH", str(postgresql_programs(folder)), prepend=os.pathsep)
        yield opened


def _write(path: Path, text: str, language: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    if language == "sh":
        path.chmod(0o755)
    return path
