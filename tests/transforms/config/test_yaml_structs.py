"""YAML files decoded into structs: values, and all errors with their lines and columns."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.config.yaml_structs import (
    Duration,
    PositiveDuration,
    Size,
    Value,
    decode_yaml,
    parse_duration,
    parse_text,
    read_yaml,
)


def parse_secret(value: object) -> str:
    raise ValueError("a secret; expected a reference")


Name = Annotated[str, Value(parse_text, "a name")]


class Port(msgspec.Struct, frozen=True):
    number: int = 80

    @classmethod
    def from_scalar(cls, value: object) -> "Port":
        if value != "http":
            raise ValueError
        return cls()


class Limits(msgspec.Struct, frozen=True):
    size: Size
    wait: Duration
    limit: PositiveDuration


class Server(msgspec.Struct, frozen=True, kw_only=True):
    host: Name
    ports: tuple[Port, ...] = ()
    mode: Literal["fast", "safe"] | Port = "fast"
    is_open: bool | None = None
    password: Annotated[str, Value(parse_secret, "a reference")] | None = None
    wait: Annotated[float, Value(parse_duration, "a duration such as 90s")] = 1.0
    folder: str = msgspec.field(default=".", name="_folder")

    def check(self) -> None:
        if self.wait == 0 and self.is_open:
            raise ValueError("wait: 0 with is_open; expected one of both")


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        decode_yaml(text, Server, name="s.yaml")
    return str(caught.value).splitlines()


def test_all_kinds_of_values_are_decoded() -> None:
    text = "host: db\nports: [http, {number: 7}]\nmode: {number: 8}\nis_open: true\nwait: 200ms"
    assert decode_yaml(text, Server, name="s.yaml") == Server(
        host="db", ports=(Port(), Port(7)), mode=Port(8), is_open=True, wait=0.2
    )


def test_all_errors_are_reported_with_line_and_column() -> None:
    text = "hots: db\nports:\n  - {number: x}\n  - ftp\nmode: slow\nwait: 7"
    keys = "host, ports, mode, is_open, password, wait"
    assert errors(text) == [
        f"s.yaml:1:1: 'hots'; expected one of {keys}; did you mean 'host'?",
        "s.yaml:3:14: ports[0].number: 'x'; expected an integer",
        "s.yaml:4:5: ports[1]: 'ftp'; expected keys and values: number",
        "s.yaml:5:7: mode: 'slow'; expected fast or safe or keys and values: number",
        "s.yaml:6:7: wait: '7'; expected a duration such as 200ms, 90s, 2h, 1h30m or 1d",
        "s.yaml:1:1: host: missing; expected a value",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("host: a\nhost: b", "s.yaml:2:1: 'host' twice; expected each key once"),
        ("host: ''", "s.yaml:1:7: host: ''; expected a name"),
        ("host: a\npassword: x", "s.yaml:2:11: password: a secret; expected a reference"),
        ("host: a\nis_open: 1", "s.yaml:2:10: is_open: 1; expected true or false"),
        (
            "host: a\nis_open: true\nwait: 0s",
            "s.yaml:1:1: wait: 0 with is_open; expected one of both",
        ),
        (
            "x",
            "s.yaml:1:1: a scalar; expected keys and values: host, ports, mode, is_open, password, "
            "wait",
        ),
    ],
)
def test_an_error_names_the_place_and_the_fix(text: str, error: str) -> None:
    assert errors(text) == [error]


def test_sizes_and_durations_have_the_grammar_of_flags() -> None:
    text = "size: 900MB\nwait: 1h30m\nlimit: 1d"
    assert decode_yaml(text, Limits, name="s.yaml") == Limits(900_000_000, 5400.0, 86400.0)


def test_a_key_that_is_only_a_field_is_unknown() -> None:
    assert errors("host: a\n_folder: x")[0].startswith("s.yaml:2:1: '_folder'; expected one of ")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("host: [", "s.yaml:1:8: the YAML ends or breaks off here; expected KEY: VALUE, with the"),
        ("host:\n\ta: b", "s.yaml:2:1: a tab; expected spaces"),
        ("host: %a", "s.yaml:1:7: a value that begins with %; expected it in quotes"),
        (r'host: "a\ud800"', "s.yaml:1:7: a lone surrogate; expected Unicode text"),
        ("host: a\n" + r'"\udc80": b', "s.yaml:2:1: a lone surrogate; expected Unicode text"),
        ("host: \x01", "s.yaml:1: a control character; expected YAML"),
        ("[" * 2000, "s.yaml: too many levels of brackets; expected at most 50"),
    ],
)
def test_a_document_must_be_yaml(text: str, error: str) -> None:
    (message,) = errors(text)
    assert message.startswith(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("22:00", "22:00"), ("yes", "yes"), ("2024-01-31", "2024-01-31"), ("007", "007")],
)
def test_texts_of_yaml_1_2_need_no_quotes(text: str, expected: str) -> None:
    assert decode_yaml(f"host: {text}", Server, name="s.yaml").host == expected


@pytest.mark.parametrize(
    "url", ["https://ida:hunter2@db/", "s3://b/x?token=hunter2", "x://h/?a=b&db_password=hunter2"]
)
def test_a_secret_in_a_url_is_refused_and_not_shown(url: str) -> None:
    assert errors(f"host: {url}\nports: [{{number: '{url}'}}]") == [
        f"s.yaml:{place}: a password in plain text; expected ${{env:NAME}} or ${{file:PATH}}"
        " instead"
        for place in ("1:7: host", "2:18: ports[0].number")
    ]


def test_a_file_must_be_readable(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    with pytest.raises(ConfigError, match="No such file or directory; expected a file that can be"):
        read_yaml(path, Server)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8; expected YAML"):
        read_yaml(path, Server)
