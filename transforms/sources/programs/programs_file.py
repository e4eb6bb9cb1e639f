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

from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import ConfigError
from transforms.sources.secrets import REFERENCE, secrets_in
from transforms.sources.yaml_keys import (
    Parser,
    load_yaml,
    parse_count,
    parse_duration,
    parse_keys,
    parse_retries,
    parse_size,
    parse_template,
    parse_text,
    parse_words,
)

GIB = 1 << 30


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
    said = load_yaml(path)
    try:
        programs = Programs(**parse_keys(said, _PARSERS, required="lister"))
        _check_users(programs)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    folder = path.absolute().parent / programs.folder
    return msgspec.structs.replace(programs, folder=str(folder))


def _parse_command(key: str, value: Any) -> tuple[str, ...]:
    words = parse_words(key, value)
    if not words or not words[0]:
        raise ConfigError(f"{key}: {value!r}; expected a program, then its arguments")
    secret = next((word for word in words if REFERENCE.search(word)), None)
    if secret:
        raise ConfigError(
            f"{key}: {secret!r}; expected no secret among arguments, where others can see it; "
            "the environment can have one"
        )
    return words


def _parse_environment(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: {value!r}; expected NAME: value, for each variable")
    pairs = ((parse_text(f"{key}: {name!r}", name), text) for name, text in value.items())
    return {name: parse_template(f"{key}.{name}", text) for name, text in pairs}


def _parse_password(key: str, value: Any) -> str:
    """What was found is not shown: it may be a password."""
    if not isinstance(value, str) or not REFERENCE.fullmatch(value):
        raise ConfigError(f"{key}: a text of its own; expected ${{env:NAME}} or ${{file:PATH}}")
    return value


def _parse_users(key: str, value: Any) -> tuple[User, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{key}: {value!r}; expected a list of {{name: …, groups: […]}}")
    return tuple(_parse_user(f"{key}[{number}]", one) for number, one in enumerate(value))


def _parse_user(key: str, value: Any) -> User:
    try:
        return User(**parse_keys(value, _USER_PARSERS, required="name"))
    except ConfigError as exc:
        raise ConfigError(f"{key}: {exc}") from exc


def _parse_name(key: str, value: Any) -> str:
    if not parse_text(key, value):
        raise ConfigError(f"{key}: ''; expected the name of a user")
    return str(value)


def _check_users(programs: Programs) -> None:
    if programs.authorizer and not programs.users:
        raise ConfigError("authorizer: nobody to ask about; expected users beside it")
    if programs.users and not programs.authorizer:
        raise ConfigError("users: nobody is asked about them; expected an authorizer beside them")
    if programs.transformer and not programs.retriever:
        raise ConfigError("transformer: nothing to transform; expected a retriever beside it")


# Last, for they name what stands above.
_USER_PARSERS: dict[str, tuple[str, Parser]] = {
    "name": ("name", _parse_name),
    "groups": ("groups", parse_words),
    "namespace": ("namespace", parse_text),
    "password": ("password", _parse_password),
}
_PARSERS: dict[str, tuple[str, Parser]] = {
    "lister": ("lister", _parse_command),
    "retriever": ("retriever", _parse_command),
    "transformer": ("transformer", _parse_command),
    "authorizer": ("authorizer", _parse_command),
    "users": ("users", _parse_users),
    "folder": ("folder", parse_text),
    "environment": ("environment", _parse_environment),
    "timeout": ("timeout_seconds", parse_duration),
    "lister_timeout": ("lister_timeout_seconds", parse_duration),
    "retries": ("retries", parse_retries),
    "backoff": ("backoff_seconds", parse_duration),
    "batch": ("batch", parse_count),
    "authorizer_batch": ("authorizer_batch", parse_count),
    "max_output_bytes": ("max_output_bytes", parse_size),
    "max_listing_bytes": ("max_listing_bytes", parse_size),
    "parallel": ("parallel", parse_count),
}
