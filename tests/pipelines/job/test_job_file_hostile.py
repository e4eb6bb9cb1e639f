"""Wrong job files: each mistake has its place and a cure, and no secret is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

from feedferry.pipelines.cli.main import main
from support.archives import put
from support.job_files import examples

pytestmark = [pytest.mark.usefixtures("here"), pytest.mark.slow]
EXAMPLES = examples()
SECRETS = (
    "https://ida:hunter2@h.example.com/",
    "https://h.example.com/?token=hunter2",
    "postgresql://ida:hunter2@db/people",
)


def pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield each key with its value, at any depth."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key, value
            yield from pairs(value)


def scalars(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.ScalarNode):
        yield node
        return
    for child in node.value:
        for item in child[1:] if isinstance(child, tuple) else (child,):
            yield from scalars(item)


def replaced(text: str, node: yaml.Node, new: str) -> str:
    end = "\n" if node.end_mark.column == 0 else ""
    return text[: node.start_mark.index] + new + end + text[node.end_mark.index :]


def check(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the errors that are printed for a file that must be refused."""
    put(Path("job.yaml"), text.encode())
    assert main(["check", "job.yaml", "--offline"]) == 2, text
    out, err = capsys.readouterr()
    assert out == ""
    assert "hunter2" not in err
    assert "Traceback" not in err
    lines = err.removeprefix("feedferry: ").splitlines()
    assert all("; expected " in line for line in lines), err
    missing = [line for line in lines if not line.startswith("job.yaml:")]
    assert all(": No such file or directory; expected a file" in line for line in missing), err
    return lines


def place(node: yaml.Node) -> str:
    return f"job.yaml:{node.start_mark.line + 1}:{node.start_mark.column + 1}: "


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_misspelt_key_is_refused_where_it_is(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLES[name]
    for key, _ in pairs(yaml.compose(text)):
        wrong = key.value[:-1] + "zz"
        lines = check(replaced(text, key, wrong), capsys)
        assert any(line.startswith(place(key)) and repr(wrong) in line for line in lines) or (
            key.value == "type" and any("type: missing" in line for line in lines)
        )


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_value_of_a_wrong_type_is_refused_where_it_is(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLES[name]
    for _, value in pairs(yaml.compose(text)):
        for wrong in ("[{a: b}]", "[[1]]", "!!python/object:os.system x"):
            lines = check(replaced(text, value, wrong), capsys)
            assert any(line.startswith(place(value)) for line in lines), lines


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_secret_in_plain_text_is_refused_and_not_shown(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLES[name]
    for value in scalars(yaml.compose(text)):
        for secret in SECRETS:
            lines = check(replaced(text, value, f'"{secret}"'), capsys)
            assert any(
                line.startswith(place(value)) and "a password in plain text" in line
                for line in lines
            ), lines


@pytest.mark.parametrize("key", ["password", "token", "passphrase", "api_key"])
def test_a_key_for_a_secret_is_refused_and_its_value_not_shown(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLES["documents"].replace("target:", f"target:\n  {key}: hunter2")
    (line,) = check(text, capsys)
    assert line.startswith(f"job.yaml:15:3: target: '{key}'; expected one of type, ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "{type: nothing, path: [a.xml]}",
            "job.yaml:3:16: source.type: 'nothing'; expected one of",
        ),
        ("{path: [a.xml]}", "job.yaml:3:9: source.type: missing; expected one of files, "),
    ],
)
def test_an_error_about_the_type_of_a_source_is_the_only_one(
    source: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"version: 1\njob: a\nsource: {source}\ntarget: {{type: gsa-feed}}\n"
    (line,) = check(text, capsys)
    assert line.startswith(message)


def test_five_errors_are_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        EXAMPLES["documents"]
        .replace("version: 1", "version: one")
        .replace("include", "inclde")
        .replace("gzip: true", "gzip: maybe")
        .replace("attempts: 5", "attempts: 0")
        .replace("10}", "110}")
    )
    assert [line.partition("; ")[0] for line in check(text, capsys)] == [
        "job.yaml:1:10: version: 'one'",
        "job.yaml:7:3: source: 'inclde'",
        "job.yaml:18:14: push.gzip: 'maybe'",
        "job.yaml:18:31: push.attempts: '0'",
        "job.yaml:20:30: safety.max_delete_percent: '110'",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("", "- a", "null", "version: 1\n---\nversion: 1", "a: &x [*x]", "job: [", "\tjob: x"),
        *("{[a]: 1}", "job: !!int x", "<<: {job: x}", "job: \x07", "[" * 3000, "job: @x"),
        *("version: !!binary x", "job: &a b\nsource: *a", "version: 99999999999999999999999"),
    ],
)
def test_a_file_that_is_no_job_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(text, capsys)
