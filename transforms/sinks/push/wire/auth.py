"""Credentials of an appliance: how they are stated, and the header that carries them.

They are stated by references only, `${env:NAME}` and `${file:PATH}`, which are resolved where
requests are sent. So no setting, file of a run or option of a pipeline has a secret.
"""

import enum
import re
from base64 import b64encode
from ipaddress import ip_address

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.config.secrets import REFERENCE, resolve, secrets_in

_FORMS = {
    "api_key": "api_key=REFERENCE",
    "basic": "basic=USER:REFERENCE or basic=REFERENCE",
    "bearer": "bearer=REFERENCE",
}
_REFERENCE = "where REFERENCE is ${env:NAME} or ${file:PATH}"
_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class AuthKind(enum.Enum):
    """The scheme of the header `Authorization`."""

    API_KEY = "api_key"
    BASIC = "basic"
    BEARER = "bearer"


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials by reference; those of `basic` are a user and a password."""

    kind: AuthKind
    reference: str

    def header(self) -> str:
        """Return the value of the header; raise ConfigError if a reference has no value."""
        value = resolve(self.reference)
        if self.kind is AuthKind.BASIC:
            return f"Basic {b64encode(value.encode()).decode()}"
        if not _HEADER_TEXT.fullmatch(value):  # not shown
            raise ConfigError(
                f"⟦auth⟧: {self.reference}: blanks, or other letters than ASCII; expected a key"
            )
        return f"{'ApiKey' if self.kind is AuthKind.API_KEY else 'Bearer'} {value}"

    def secrets(self) -> tuple[str, ...]:
        """Return the texts that no message may show."""
        return (*secrets_in([self.reference]), self.header().partition(" ")[2])


def parse_auth(text: str) -> Auth:
    """Return the credentials of `KIND=REFERENCE`; raise ConfigError, which does not show others."""
    name, _, reference = text.partition("=")
    if name not in _FORMS:
        raise ConfigError(
            f"{name.partition(':')[0]!r}; expected {' or '.join(_FORMS.values())}, {_REFERENCE}"
        )
    kind = AuthKind(name)
    user, colon, password = reference.partition(":")
    is_pair = kind is AuthKind.BASIC and bool(colon and user and "$" not in user)
    if not REFERENCE.fullmatch(password if is_pair else reference):
        raise ConfigError(
            f"{name}: a secret in plain text, or none; expected {_FORMS[name]}, {_REFERENCE}"
        )
    return Auth(kind=kind, reference=reference)


def format_auth(auth: Auth) -> str:
    """Return the text that `parse_auth` takes."""
    return f"{auth.kind.value}={auth.reference}"


def is_loopback(host: str) -> bool:
    """Whether requests to a host stay on this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
