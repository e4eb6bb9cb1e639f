"""The keys of a YAML file that its user writes, parsed one by one: each says what it expected."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from schemas import units
from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from transforms.sources.secrets import REFERENCE

Parser = Callable[[str, Any], object]  # Any: whatever YAML holds


def load_yaml(path: Path) -> Any:
    """Return what a YAML file says; raise ConfigError unless it can be read and is one."""
    try:
        return msgspec.yaml.decode(path.read_bytes())
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    except msgspec.DecodeError as exc:
        raise ConfigError(f"{path}: {_on_one_line(exc)}; expected YAML") from exc


def parse_keys(
    said: Any, parsers: Mapping[str, tuple[str, Parser]], *, required: str | None = None
) -> Any:
    if not isinstance(said, dict):
        among = f", {required} among them" if required else f": {', '.join(parsers)}"
        raise ConfigError(f"{said!r}; expected keys and values{among}")
    for key in said:
        if key not in parsers:
            hint = did_you_mean(key, parsers)
            raise ConfigError(f"{key!r}; expected one of {', '.join(parsers)}{hint}")
    if required is not None and required not in said:
        beside = f" beside {', '.join(map(str, said))}" if said else ""
        raise ConfigError(f"{required}: not given; expected it{beside}")
    named = ((*parsers[key], key, value) for key, value in said.items())
    return {field: parse(key, value) for field, parse, key, value in named}


def parse_words(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ConfigError(f"{key}: {value!r}; expected a list: [{', '.join(value.split())}]")
    if not isinstance(value, list):
        raise ConfigError(f"{key}: {value!r}; expected a list of texts")
    return tuple(parse_text(f"{key}[{number}]", one) for number, one in enumerate(value))


def parse_text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key}: {value!r}; expected a text, so put it in quotes")
    if "\0" in value:
        raise ConfigError(f"{key}: {value!r}; expected a text without NUL")
    return value


def parse_template(key: str, value: Any) -> str:
    text = parse_text(key, value)
    if "${" in REFERENCE.sub("", text):
        raise ConfigError(f"{key}: {text!r}; expected ${{env:NAME}} or ${{file:PATH}}")
    return text


def parse_duration(key: str, value: Any) -> float:
    with suppress(ConfigError):
        if seconds := units.parse_duration(str(value)):
            return seconds
    raise ConfigError(f"{key}: {value!r}; expected a duration such as 200ms, 90s or 2h")


def parse_size(key: str, value: Any) -> int:
    with suppress(ConfigError):
        if size := units.parse_size(str(value)):
            return size
    raise ConfigError(f"{key}: {value!r}; expected a size such as 4096, 64KiB or 256MiB")


def parse_count(key: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{key}: {value!r}; expected a number, 1 or more")
    return value


def parse_retries(key: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ConfigError(f"{key}: {value!r}; expected a number, 0 or more")
    return value


def _on_one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
