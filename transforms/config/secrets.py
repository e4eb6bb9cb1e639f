"""References to secrets: `${env:NAME}` and `${file:PATH}`, in place of passwords and tokens."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from feedferry.schemas.errors import ConfigError

REFERENCE = re.compile(r"\$\{(env|file):([^{}]+)\}")
SECRET_NAME = re.compile("pass|pwd|secret|token|api_?key|credential", re.IGNORECASE)
"""Names of settings whose values are secrets."""

PLAIN_SECRET = "a password in plain text; expected ${env:NAME} or ${file:PATH} instead"

_ANY_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_LOGIN = re.compile(r"\w://[^/?#\s]*:[^/?#\s]+@")
_OPTION = re.compile(rf"[?&;][\w.-]*(?:{SECRET_NAME.pattern})[\w.-]*=[^&;#\s]", re.IGNORECASE)


def check_no_secret(text: str) -> None:
    """Raise ValueError, which does not show it, for a password or token in a URL."""
    plain = _ANY_REFERENCE.sub("", text)
    if _LOGIN.search(plain) or _OPTION.search(plain):
        raise ValueError(PLAIN_SECRET)


def check_references(text: str) -> None:
    """Raise ValueError for a reference of another form."""
    if "${" in REFERENCE.sub("", text):
        raise ValueError("an unknown ${ reference; expected ${env:NAME} or ${file:PATH}")


def resolve(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return `text` with its references replaced; raise ConfigError for one without a value.

    `environment` is that of the process by default.
    """
    variables = os.environ if environment is None else environment
    return REFERENCE.sub(lambda match: _look_up(match[1], match[2], variables), text)


def with_absolute_files(text: str, folder: Path) -> str:
    """Return `text` with the paths of its references below a folder, unless they are absolute."""

    def absolute(match: re.Match[str]) -> str:
        return f"${{file:{folder / match[2]}}}" if match[1] == "file" else match[0]

    return REFERENCE.sub(absolute, text)


def secrets_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the resolved references in `texts`, which no message may show."""
    secrets = (resolve(match[0]) for text in texts for match in REFERENCE.finditer(text))
    return tuple(secret for secret in secrets if secret)


def _look_up(kind: str, name: str, variables: Mapping[str, str]) -> str:
    if kind == "file":
        try:
            return Path(name).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as exc:
            cause = getattr(exc, "strerror", None) or "not UTF-8"
            raise ConfigError(f"${{file:{name}}}: {cause}; expected a file with a secret") from exc
    if name not in variables:
        raise ConfigError(f"${{env:{name}}}: not set; expected a variable of the environment")
    return variables[name]
