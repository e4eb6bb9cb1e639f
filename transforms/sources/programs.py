"""The programs that a source `command` runs, as its YAML file names them.

::

    lister: [./list.sh, --all]            # writes a lister stream; the only key that must be there
    retriever: [python3, get.py]          # is given a doc id and when it was crawled last
    transformer: [./names.py]             # rewrites metadata
    authorizer: [./may.py]                # is asked what each user may see
    users:
      - {name: tim, groups: [managers], namespace: corp, password: "${env:TIM}"}
    folder: repository                    # where they work; relative to this file's
    environment: {TOKEN: "${file:/run/secrets/token}"}
    timeout: 60s

Arguments are lists and meet no shell. A secret is named, never written down: `${env:NAME}` and
`${file:PATH}` are looked up when a program is started, and what is found stays with it.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import ConfigError

GIB = 1 << 30
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h)", re.ASCII)
_BYTES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB}
_SIZE = re.compile(r"([1-9][0-9]*) ?(|KiB|MiB|GiB)", re.ASCII)
_SECRET = re.compile(r"\$\{(env|file):([^{}]+)\}")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who an authorizer is asked about; `password` is a reference to one."""

    name: str
    groups: tuple[str, ...] = ()
    namespace: str | None = None
    password: str | None = None


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one source, and how they are run; an empty command is one not given.

    `retries` are those of one call; the pause before each doubles from `backoff_seconds`.
    `batch` ids go to one call of the retriever, `authorizer_batch` to one of the authorizer.
    `parallel` of `None` leaves it to `--jobs`.
    """

    lister: tuple[str, ...]
    retriever: tuple[str, ...] = ()
    transformer: tuple[str, ...] = ()
    authorizer: tuple[str, ...] = ()
    users: tuple[User, ...] = ()
    folder: str = "."
    environment: dict[str, str] = {}
    timeout_seconds: float = 60
    lister_timeout_seconds: float | None = None
    retries: int = 2
    backoff_seconds: float = 1
    batch: int = 1
    authorizer_batch: int = 1000
    max_output_bytes: int = GIB >> 2
    max_listing_bytes: int = GIB << 6
    parallel: int | None = None

    def secrets(self) -> tuple[str, ...]:
        """Return what its references lead to: what nobody may be shown."""
        passwords = (user.password for user in self.users if user.password is not None)
        return secrets_in((*self.environment.values(), *passwords))


def load(path: Path) -> Programs:
    """Return what a YAML file says; raise ConfigError at the first that cannot be used."""
    try:
        said = msgspec.yaml.decode(path.read_bytes())
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    except msgspec.DecodeError as exc:
        raise ConfigError(f"{path}: {_on_one_line(exc)}; expected YAML") from exc
    try:
        programs = Programs(**_parse_keys(said, _PARSERS, required="lister"))
        _check_users(programs)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    folder = path.absolute().parent / programs.folder
    return msgspec.structs.replace(programs, folder=str(folder))


def resolve(text: str) -> str:
    """Return `text` with its references replaced; raise ConfigError for one that leads nowhere."""
    return _SECRET.sub(lambda match: _look_up(match[1], match[2]), text)


def secrets_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return what the references in `texts` lead to: what no message may show."""
    found = (_look_up(*match.groups()) for text in texts for match in _SECRET.finditer(text))
    return tuple(secret for secret in found if secret)


def _look_up(kind: str, name: str) -> str:
    if kind == "file":
        try:
            return Path(name).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as exc:
            cause = getattr(exc, "strerror", None) or "not UTF-8"
            raise ConfigError(f"${{file:{name}}}: {cause}; expected a file with a secret") from exc
    if name not in os.environ:
        raise ConfigError(f"${{env:{name}}}: not set; expected a variable of the environment")
    return os.environ[name]


Parser = Callable[[str, Any], object]  # Any: whatever YAML holds


def _parse_keys(said: Any, parsers: Mapping[str, tuple[str, Parser]], *, required: str) -> Any:
    if not isinstance(said, dict):
        raise ConfigError(f"{said!r}; expected keys and values, {required} among them")
    for key in said:
        if key not in parsers:
            raise ConfigError(f"{key!r}; expected one of {', '.join(parsers)}{_like(key, parsers)}")
    if required not in said:
        raise ConfigError(f"{required}: not given; expected it beside {', '.join(map(str, said))}")
    named = ((*parsers[key], key, value) for key, value in said.items())
    return {field: parse(key, value) for field, parse, key, value in named}


def _parse_command(key: str, value: Any) -> tuple[str, ...]:
    words = _parse_words(key, value)
    if not words or not words[0]:
        raise ConfigError(f"{key}: {value!r}; expected a program, then its arguments")
    secret = next((word for word in words if _SECRET.search(word)), None)
    if secret:
        raise ConfigError(
            f"{key}: {secret!r}; expected no secret among arguments, where others can see it; "
            "the environment can have one"
        )
    return words


def _parse_words(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ConfigError(f"{key}: {value!r}; expected a list: [{', '.join(value.split())}]")
    if not isinstance(value, list):
        raise ConfigError(f"{key}: {value!r}; expected a list of texts")
    return tuple(_parse_text(f"{key}[{number}]", one) for number, one in enumerate(value))


def _parse_text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key}: {value!r}; expected a text, so put it in quotes")
    if "\0" in value:
        raise ConfigError(f"{key}: {value!r}; expected a text without NUL")
    return value


def _parse_environment(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: {value!r}; expected NAME: value, for each variable")
    pairs = ((_parse_text(f"{key}: {name!r}", name), text) for name, text in value.items())
    return {name: _parse_template(f"{key}.{name}", text) for name, text in pairs}


def _parse_template(key: str, value: Any) -> str:
    text = _parse_text(key, value)
    if "${" in _SECRET.sub("", text):
        raise ConfigError(f"{key}: {text!r}; expected ${{env:NAME}} or ${{file:PATH}}")
    return text


def _parse_password(key: str, value: Any) -> str:
    """What was found is not shown: it may be a password."""
    if not isinstance(value, str) or not _SECRET.fullmatch(value):
        raise ConfigError(f"{key}: a text of its own; expected ${{env:NAME}} or ${{file:PATH}}")
    return value


def _parse_users(key: str, value: Any) -> tuple[User, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{key}: {value!r}; expected a list of {{name: …, groups: […]}}")
    return tuple(_parse_user(f"{key}[{number}]", one) for number, one in enumerate(value))


def _parse_user(key: str, value: Any) -> User:
    try:
        return User(**_parse_keys(value, _USER_PARSERS, required="name"))
    except ConfigError as exc:
        raise ConfigError(f"{key}: {exc}") from exc


def _parse_name(key: str, value: Any) -> str:
    if not _parse_text(key, value):
        raise ConfigError(f"{key}: ''; expected the name of a user")
    return str(value)


def _parse_duration(key: str, value: Any) -> float:
    match = _DURATION.fullmatch(str(value))
    if not match or float(match[1]) == 0:
        raise ConfigError(f"{key}: {value!r}; expected a duration such as 200ms, 90s or 2h")
    return float(match[1]) * _SECONDS[match[2]]


def _parse_size(key: str, value: Any) -> int:
    match = _SIZE.fullmatch(str(value))
    if not match:
        raise ConfigError(f"{key}: {value!r}; expected a size such as 4096, 64KiB or 256MiB")
    return int(match[1]) * _BYTES[match[2]]


def _parse_count(key: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{key}: {value!r}; expected a number, 1 or more")
    return value


def _parse_retries(key: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ConfigError(f"{key}: {value!r}; expected a number, 0 or more")
    return value


def _check_users(programs: Programs) -> None:
    if programs.authorizer and not programs.users:
        raise ConfigError("authorizer: nobody to ask about; expected users beside it")
    if programs.users and not programs.authorizer:
        raise ConfigError("users: nobody is asked about them; expected an authorizer beside them")
    if programs.transformer and not programs.retriever:
        raise ConfigError("transformer: nothing to transform; expected a retriever beside it")


def _like(key: object, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(key).lower().replace("-", "_"), list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _on_one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())


# Last, for they name what stands above.
_USER_PARSERS: dict[str, tuple[str, Parser]] = {
    "name": ("name", _parse_name),
    "groups": ("groups", _parse_words),
    "namespace": ("namespace", _parse_text),
    "password": ("password", _parse_password),
}
_PARSERS: dict[str, tuple[str, Parser]] = {
    "lister": ("lister", _parse_command),
    "retriever": ("retriever", _parse_command),
    "transformer": ("transformer", _parse_command),
    "authorizer": ("authorizer", _parse_command),
    "users": ("users", _parse_users),
    "folder": ("folder", _parse_text),
    "environment": ("environment", _parse_environment),
    "timeout": ("timeout_seconds", _parse_duration),
    "lister_timeout": ("lister_timeout_seconds", _parse_duration),
    "retries": ("retries", _parse_retries),
    "backoff": ("backoff_seconds", _parse_duration),
    "batch": ("batch", _parse_count),
    "authorizer_batch": ("authorizer_batch", _parse_count),
    "max_output_bytes": ("max_output_bytes", _parse_size),
    "max_listing_bytes": ("max_listing_bytes", _parse_size),
    "parallel": ("parallel", _parse_count),
}
