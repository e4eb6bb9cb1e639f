"""The examples of the README, run in order, because an example needs those before it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.cli.main import main
from support.pages import Example, examples, laid_out, read_page, run
from support.runs import ROOT, keep_levels, report

pytestmark = pytest.mark.slow

README = read_page("README.md")
EXAMPLES = list(examples(README))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with laid_out(README, tmp_path_factory.mktemp("readme")) as folder:
        yield folder


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(example.words))
def test_an_example_of_the_readme_does_what_it_shows(
    example: Example, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(example)
    out, err = capsys.readouterr()
    assert (code in {0, 1}, out) == (True, example.printed or out), err


def test_the_readme_has_examples() -> None:
    assert {example.words[0] for example in EXAMPLES} == {
        *("convert", "formats", "inspect", "plan", "push"),
    }


def test_the_test_command_of_the_readme_is_what_ci_runs() -> None:
    assert "./run_local.sh test " in README
    assert (ROOT / ".ci" / "run").read_text("utf-8").endswith('exec "$HERE/run_local.sh" test\n')


def test_the_readme_converts_the_bundled_sample_with_a_balanced_account(folder: Path) -> None:
    args = ("archive", "-o", "balanced", "--to", "thunderstone", "--accept-loss", "acl", "-q")
    main(["convert", *args])

    account = report(folder / "balanced")["account"]
    went = [sum(account[name].values()) for name in ("written", "rejected", "filtered")]
    assert sum(account["read"].values()) == sum(went)
