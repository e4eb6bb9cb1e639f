"""The programs file of the source `adaptor`; docs/formats/adaptor.md describes its keys.

A command is a list of arguments and is not passed to a shell. A secret is a reference,
`${env:NAME}` or `${file:PATH}`, which is resolved when a program starts.
"""

from pathlib import Path
from typing import Annotated

import msgspec

from feedferry.transforms.config.secrets import PLAIN_SECRET, REFERENCE, SECRET_NAME, secrets_in
from feedferry.transforms.config.yaml_structs import (
    Natural,
    Positive,
    PositiveDuration,
    Size,
    Text,
    Value,
    parse_text,
    read_yaml,
)

GIB = 1 << 30


def _parse_command(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not value[0]:
        raise ValueError
    secret = next((word for word in value if REFERENCE.search(str(word))), None)
    if secret:
        raise ValueError(
            f"{secret!r}; expected no secret among arguments, which other users can see; use the "
            "environment"
        )
    if not all(isinstance(word, str) and "\0" not in word for word in value):
        raise ValueError
    return tuple(value)


def _parse_environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str) or "\0" in name + text:
            raise ValueError(f"{name!r}; expected texts as name and value, so put them in quotes")
        if SECRET_NAME.search(name) and not REFERENCE.search(text):
            raise ValueError(f"{name}: {PLAIN_SECRET}")
        if "${" in REFERENCE.sub("", text):
            raise ValueError(f"{name}: {text!r}; expected ${{env:NAME}} or ${{file:PATH}}")
    return value


def _parse_password(value: object) -> str:
    """Return a reference; the message does not show the value, which may be a password."""
    if not isinstance(value, str) or not REFERENCE.fullmatch(value):
        raise ValueError("a literal text; expected ${env:NAME} or ${file:PATH}")
    return value


_Command = Annotated[
    tuple[str, ...], Value(_parse_command, "a list of texts: a program, then its arguments")
]


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user whose access the authorizer decides; `password` is a reference to a secret."""

    name: Annotated[str, Value(parse_text, "the name of a user")]
    groups: tuple[Text, ...] = ()
    namespace: Text | None = None
    password: Annotated[str, Value(_parse_password, "a reference")] | None = None


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one source and their limits; an empty command is not used.

    `retries` is per call; the pause before a retry doubles from `backoff_seconds`. One call of the
    authorizer has up to `authorizer_batch` ids. `parallel=None` uses the number of `--jobs`.
    """

    lister: _Command
    retriever: _Command = ()
    transformer: _Command = ()
    authorizer: _Command = ()
    users: tuple[User, ...] = ()
    folder: Text = "."
    environment: Annotated[
        dict[str, str], Value(_parse_environment, "NAME: value, for each variable")
    ] = {}
    timeout_seconds: PositiveDuration = msgspec.field(default=60.0, name="timeout")
    lister_timeout_seconds: PositiveDuration | None = msgspec.field(
        default=None, name="lister_timeout"
    )
    retries: Natural = 2
    backoff_seconds: PositiveDuration = msgspec.field(default=1.0, name="backoff")
    authorizer_batch: Positive = 1000
    max_output_bytes: Size = GIB >> 2
    max_listing_bytes: Size = GIB << 6
    parallel: Positive | None = None

    def secrets(self) -> tuple[str, ...]:
        """Return the resolved secrets, which no message may show."""
        passwords = (user.password for user in self.users if user.password is not None)
        return secrets_in((*self.environment.values(), *passwords))

    def check(self) -> None:
        """Raise ValueError for a program without the keys that it needs."""
        if self.authorizer and not self.users:
            raise ValueError("authorizer: no users; expected the key users with at least one user")
        if self.users and not self.authorizer:
            raise ValueError("users: no authorizer; expected the key authorizer")
        if self.transformer and not self.retriever:
            raise ValueError("transformer: no retriever; expected the key retriever")


def load(path: Path) -> Programs:
    """Read a programs file; raise ConfigError with all errors of the file."""
    programs = read_yaml(path, Programs)
    folder = path.absolute().parent / programs.folder
    return msgspec.structs.replace(programs, folder=str(folder))
