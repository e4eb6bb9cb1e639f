"""The README: its examples run in order, its first commands in a clean clone too."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.checkouts import clean_clone, git, new_environment, script_of
from support.pages import Example, Terminal, examples, read_page, terminal
from support.ports import kept_port
from support.runs import ROOT, keep_levels, report

pytestmark = pytest.mark.slow

README = read_page("README.md")
RUN_LOCAL = (ROOT / "run_local.sh").read_text("utf-8")
FOR_USERS, _, FOR_DEVELOPERS = README.partition("\n## Development\n")
SAVED = re.compile(r'^```yaml title="([\w.]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
INSTALL_SECONDS = 900


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with terminal(README, tmp_path_factory.mktemp("readme")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield


@pytest.mark.kind("examples")
@pytest.mark.parametrize("example", [*examples(README)], ids=lambda example: example.command)
def test_an_example_of_the_readme_does_what_it_shows(
    example: Example, readme: Terminal, accept: bool
) -> None:
    readme.check(example, accept_in=ROOT / "README.md" if accept else None)


def test_the_readme_has_examples() -> None:
    assert {example.words[1] for example in examples(README)} >= {"convert", "plan", "push"}


def test_ci_runs_the_test_command_of_the_readme_and_then_the_other_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    commands = re.findall(r'"\$HERE/run_local.sh" ([\w-]+)', script)
    assert (commands, "./run_local.sh test " in README) == (["test", "test-rest"], True)
    markers = dict(re.findall(r"^ +(test\S*)\) .*run_tests '(.*)' ;;$", RUN_LOCAL, re.MULTILINE))
    assert markers == {
        "test": "not slow or kind",
        "test-all": "",
        "test-rest": "slow and not kind",
    }


def test_a_new_user_can_follow_the_readme_in_a_clean_clone(tmp_path: Path) -> None:
    clone = clean_clone(tmp_path / "feedferry")
    with kept_port() as port:
        for name, text in SAVED.findall(FOR_USERS):
            (clone / name).write_text(text.replace("19900", str(port)), "utf-8")
        done = subprocess.run(
            ["bash", "-c", script_of(FOR_USERS, port)],
            cwd=clone,
            env=new_environment(),
            timeout=INSTALL_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    accepted = re.findall(r"^pushed +(\d+) accepted,", done.stdout, re.MULTILINE)
    assert accepted == ["54", "54"]  # by the sample, and by the job
    assert f'\nnext      export PATH="{clone}/.venv/bin:$PATH" ' in done.stdout
    assert git(clone, "status", "--short") == "?? intranet.yaml\n"


def test_the_development_commands_of_the_readme_are_installed_with_the_tests() -> None:
    programs = re.findall(r"^\.venv/bin/(\w+) ", FOR_DEVELOPERS, re.MULTILINE)
    assert programs == ["pytest", "mkdocs"]
    assert all(Path(sys.executable).with_name(name).exists() for name in programs)


def test_the_readme_converts_the_bundled_sample_with_a_balanced_account(readme: Terminal) -> None:
    args = ("archive", "-o", "balanced", "--to", "thunderstone", "--accept-loss", "acl", "-q")
    main(["convert", *args])

    account = report(readme.folder / "balanced")["account"]
    went = [sum(account[name].values()) for name in ("written", "rejected", "filtered")]
    assert sum(account["read"].values()) == sum(went)
