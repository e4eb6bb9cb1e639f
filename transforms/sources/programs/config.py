"""The programs file of the source `command`.

::

    lister: [./list.sh, --all]            # writes a lister stream; required
    retriever: [python3, get.py]          # writes one document
    transformer: [./names.py]             # rewrites metadata
    authorizer: [./may.py]                # decides which documents a user may read
    users:
      - {name: tim, groups: [managers], namespace: corp, password: "${env:TIM}"}
    folder: repository                    # working folder; relative to the folder of this file
    environment: {TOKEN: "${file:/run/secrets/token}"}
    timeout: 60s

A command is a list of arguments and is not passed to a shell. A secret is a reference,
`${env:NAME}` or `${file:PATH}`, which is resolved when a program starts.
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
    """A user whose access the authorizer decides; `password` is a reference to a secret."""

    name: str
    groups: tuple[str, ...] = ()
    namespace: str | None = None
    password: str | None = None


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one source and their limits; an empty command is not used.

    `retries` is per call; the pause before a retry doubles from `backoff_seconds`. One call of the
    authorizer has up to `authorizer_batch` ids. `parallel=None` uses the number of `--jobs`.
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
    authorizer_batch: int = 1000
    max_output_bytes: int = GIB >> 2
    max_listing_bytes: int = GIB << 6
    parallel: int | None = None

    def secrets(self) -> tuple[str, ...]:
        """Return the resolved secrets, which no message may show."""
        passwords = (user.password for user in self.users if user.password is not None)
        return secrets_in((*self.environment.values(), *passwords))


def load(path: Path) -> Programs:
    """Read a programs file; raise ConfigError for the first key that cannot be used."""
    document = load_yaml(path)
    try:
        programs = Programs(**parse_keys(document, _PARSERS, required="lister"))
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
            f"{key}: {secret!r}; expected no secret among arguments, which other users can see; "
            "use the environment"
        )
    return words


def _parse_environment(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: {value!r}; expected NAME: value, for each variable")
    pairs = ((parse_text(f"{key}: {name!r}", name), text) for name, text in value.items())
    return {name: parse_template(f"{key}.{name}", text) for name, text in pairs}


def _parse_password(key: str, value: Any) -> str:
    """Return a reference; the message does not show the value, which may be a password."""
    if not isinstance(value, str) or not REFERENCE.fullmatch(value):
        raise ConfigError(f"{key}: a literal text; expected ${{env:NAME}} or ${{file:PATH}}")
    return value


def _parse_users(key: str, value: Any) -> tuple[User, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{key}: {value!r}; expected a list of {{name: …, groups: […]}}")
    return tuple(_parse_user(f"{key}[{number}]", user) for number, user in enumerate(value))


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
        raise ConfigError("authorizer: no users; expected the key users with at least one user")
    if programs.users and not programs.authorizer:
        raise ConfigError("users: no authorizer; expected the key authorizer")
    if programs.transformer and not programs.retriever:
        raise ConfigError("transformer: no retriever; expected the key retriever")


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
    "authorizer_batch": ("authorizer_batch", parse_count),
    "max_output_bytes": ("max_output_bytes", parse_size),
    "max_listing_bytes": ("max_listing_bytes", parse_size),
    "parallel": ("parallel", parse_count),
}
