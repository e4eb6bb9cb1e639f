"""The README: its examples run in order, and its first commands are those of CI."""

from collections.abc import Iterator

import pytest

from pipelines.cli.main import main
from support.pages import Example, Terminal, examples, read_page, terminal
from support.runs import ROOT, keep_levels, report

pytestmark = pytest.mark.slow

README = read_page("README.md")


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with terminal(README, tmp_path_factory.mktemp("readme")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield


@pytest.mark.parametrize("example", [*examples(README)], ids=lambda example: example.command)
def test_an_example_of_the_readme_does_what_it_shows(
    example: Example, readme: Terminal, pytestconfig: pytest.Config
) -> None:
    accept = pytestconfig.getoption("--accept")
    readme.check(example, accept_in=ROOT / "README.md" if accept else None)


def test_the_readme_has_examples() -> None:
    assert {example.words[1] for example in examples(README)} >= {"convert", "plan", "push"}


def test_the_test_command_of_the_readme_is_what_ci_runs() -> None:
    assert "./run_local.sh test " in README
    assert (ROOT / ".ci" / "run").read_text("utf-8").endswith('exec "$HERE/run_local.sh" test\n')


def test_the_readme_converts_the_bundled_sample_with_a_balanced_account(readme: Terminal) -> None:
    args = ("archive", "-o", "balanced", "--to", "thunderstone", "--accept-loss", "acl", "-q")
    main(["convert", *args])

    account = report(readme.folder / "balanced")["account"]
    went = [sum(account[name].values()) for name in ("written", "rejected", "filtered")]
    assert sum(account["read"].values()) == sum(went)
