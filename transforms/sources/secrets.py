"""References to secrets: `${env:NAME}` and `${file:PATH}`, in place of passwords and tokens."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import ConfigError

REFERENCE = re.compile(r"\$\{(env|file):([^{}]+)\}")


def resolve(text: str) -> str:
    """Return `text` with its references replaced; raise ConfigError for one without a value."""
    return REFERENCE.sub(lambda match: _look_up(match[1], match[2]), text)


def secrets_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the resolved references in `texts`, which no message may show."""
    secrets = (_look_up(*match.groups()) for text in texts for match in REFERENCE.finditer(text))
    return tuple(secret for secret in secrets if secret)


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
