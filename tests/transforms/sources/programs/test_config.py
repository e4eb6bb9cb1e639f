"""The programs file: its keys and its errors."""

from pathlib import Path

import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.config.secrets import resolve, secrets_in
from feedferry.transforms.sources.programs.config import Programs, User, load


def loaded(folder: Path, text: str) -> Programs:
    path = folder / "programs.yaml"
    path.write_text(text, "utf-8")
    return load(path)


KEYS = (
    "lister, retriever, transformer, authorizer, users, folder, environment, timeout, "
    "lister_timeout, retries, backoff, authorizer_batch, max_output_bytes, max_listing_bytes, "
    "parallel"
)


def refusal(folder: Path, text: str) -> str:
    """The errors of a file, without its name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    return str(caught.value).replace(f"{folder / 'programs.yaml'}:", "")


def test_all_keys_are_read(tmp_path: Path) -> None:
    text = """
lister: [./list.sh, --all]
retriever: [python3, get.py]
transformer: [./names.py]
authorizer: [./may.py]
users:
  - {name: tim, groups: [managers, staff], namespace: corp, password: "${env:TIM}"}
  - name: ann
folder: repository
environment: {KIND: wiki, TOKEN: "Bearer ${file:/run/secrets/token}"}
timeout: 200ms
lister_timeout: 2h
retries: 0
backoff: 1.5s
authorizer_batch: 500
max_output_bytes: 64KiB
max_listing_bytes: 1GiB
parallel: 4
"""
    assert loaded(tmp_path, text) == Programs(
        lister=("./list.sh", "--all"),
        retriever=("python3", "get.py"),
        transformer=("./names.py",),
        authorizer=("./may.py",),
        users=(
            User(name="tim", groups=("managers", "staff"), namespace="corp", password="${env:TIM}"),
            User(name="ann"),
        ),
        folder=str(tmp_path / "repository"),
        environment={"KIND": "wiki", "TOKEN": "Bearer ${file:/run/secrets/token}"},
        timeout_seconds=0.2,
        lister_timeout_seconds=7200,
        retries=0,
        backoff_seconds=1.5,
        authorizer_batch=500,
        max_output_bytes=65_536,
        max_listing_bytes=1_073_741_824,
        parallel=4,
    )


def test_an_absolute_folder_is_kept(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{lister: [list], folder: /srv/wiki}").folder == "/srv/wiki"


COMMAND = "expected a list of texts: a program, then its arguments"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"1:1: an empty document; expected keys and values: {KEYS}"),
        ("retriever: [get]", "1:1: lister: missing; expected a value"),
        (
            "{lister: [list], retreiver: [get]}",
            f"1:18: 'retreiver'; expected one of {KEYS}; did you mean 'retriever'?",
        ),
        ("lister: list --all", f"1:9: lister: 'list --all'; {COMMAND}"),
        ("lister: [list, true]", f"1:9: lister: ['list', True]; {COMMAND}"),
        (
            '{lister: [list, "--key=${env:KEY}"]}',
            "1:10: lister: '--key=${env:KEY}'; expected no secret among arguments, which other "
            "users can see; use the environment",
        ),
        (
            "{lister: [list], environment: [A]}",
            "1:31: environment: ['A']; expected NAME: value, for each variable",
        ),
        (
            "{lister: [list], environment: {A: 7}}",
            "1:31: environment: 'A'; expected texts as name and value, so put them in quotes",
        ),
        (
            '{lister: [list], environment: {A: "${evn:B}"}}',
            "1:31: environment: A: '${evn:B}'; expected ${env:NAME} or ${file:PATH}",
        ),
        (
            "{lister: [list], authorizer: [may]}",
            "1:1: authorizer: no users; expected the key users with at least one user",
        ),
        (
            "{lister: [list], users: [{name: tim}]}",
            "1:1: users: no authorizer; expected the key authorizer",
        ),
        (
            "{lister: [list], transformer: [names]}",
            "1:1: transformer: no retriever; expected the key retriever",
        ),
        (
            "{lister: [list], users: [{name: tim, password: 'x${env:TIM}'}]}",
            "1:48: users[0].password: a literal text; expected ${env:NAME} or ${file:PATH}",
        ),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert refusal(tmp_path, text) == expected


def test_a_file_reference_is_its_text_without_the_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"s3same\r\n")

    assert resolve(f"Bearer ${{file:{tmp_path / 'token'}}}") == "Bearer s3same"


@pytest.mark.parametrize(
    ("name", "finding"), [("none", "No such file or directory"), ("binary", "not UTF-8")]
)
def test_a_secret_file_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, finding: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    reference = f"${{file:{tmp_path / name}}}"

    with pytest.raises(ConfigError) as caught:
        resolve(reference)

    assert str(caught.value) == f"{reference}: {finding}; expected a file with a secret"


def test_secrets_are_the_resolved_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3same")
    monkeypatch.setenv("NOTHING", "")

    assert secrets_in(["Bearer ${env:SECRET}", "plain", "${env:NOTHING}"]) == ("s3same",)
