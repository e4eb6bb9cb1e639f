"""Settings in messages: a message marks a setting, and each surface gives it a name.

`⟦max_rejects⟧` in a message is `--max-rejects` on the command line, a key for a job file, and a
parameter in Python; `⟦accept_loss acl⟧` also states a value. The name is that of the field.
Messages in files (rejects, notices, receipts) name flags, because files are read without the job,
and the commands that repeat a conversion take flags.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

_MARK = re.compile(r"⟦([a-z_]+)(?: ([^⟧]*))?⟧")
_FLAGS = {
    "inputs": "INPUT",
    "output": "-o",
    "from_format": "--from",
    "to_format": "--to",
    "url": "--to",
    "fields": "--field",
    "report_format": "--format",
    "keep_seconds": "--keep-age",
    "name": "NAME",
    "overrides": "--set",
    "job_profile": "--profile",
    "certificate": "--tls-cert",
    "key": "--tls-key",
    "trusted": "--trust",
    "profiles": "--receive-profile",
    "min_free_bytes": "--min-free",
    "feed_seconds": "--feed-timeout",
}
"""Flags that are not called like their setting."""


OWN = "target_"
"""The begin of the names of options that formats and appliances declare; they have no flags."""


class Setting(NamedTuple):
    """A setting in a message; `value` is "" if none is stated.

    `is_subject`: a line of the message begins with it.
    """

    name: str
    value: str = ""
    is_subject: bool = False


def worded(text: str, word: Callable[[Setting], str]) -> str:
    """Return a message with words in place of its marks."""

    def replace(match: re.Match[str]) -> str:
        before = text[: match.start()]
        return word(Setting(match[1], match[2] or "", not before or before.endswith("\n")))

    return _MARK.sub(replace, text)


def settings_in(text: str) -> list[str]:
    """Return the names of the settings in a message, in order."""
    return [name for name, _ in _MARK.findall(text)]


def as_flag(setting: Setting) -> str:
    """Return a setting as on the command line: `--accept-loss acl`."""
    if setting.name.startswith(OWN):
        value = f"={setting.value}" if setting.value else ""
        return f"--set {setting.name.replace('_', '.', 1)}{value}"
    flag = _FLAGS.get(setting.name) or "--" + setting.name.replace("_", "-")
    return f"{flag} {setting.value}".rstrip()


def as_parameter(setting: Setting) -> str:
    """Return a setting as in Python: `accept_loss='acl'`."""
    return f"{setting.name}={setting.value!r}" if setting.value else setting.name


in_flags = partial(worded, word=as_flag)
in_parameters = partial(worded, word=as_parameter)
