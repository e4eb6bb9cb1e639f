"""Messages in terms of the keys of a job file."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from pipelines.job.job_keys import JobKey, job_keys
from schemas.setting import Setting, as_flag, settings_in, worded

_BY_VARIABLE = "environment "
"""What the origin of a value begins with that a variable states."""


class KeyWording(msgspec.Struct, frozen=True):
    """Words messages with the keys of a job file, and with each flag in parentheses.

    A flag that was given stays a flag, and a message about a value of a variable names that.
    """

    path: Path
    origins: Mapping[str, str]

    def __call__(self, text: str) -> str:
        return worded(text, self._word)

    def located(self, message: str) -> str:
        """Return a message, in each line with the place of the first key that has one."""
        return "\n".join(map(self._located, message.splitlines()))

    def _located(self, line: str) -> str:
        keys = [key.path for name in settings_in(line) if (key := self._key(name)) is not None]
        if not keys:
            return self(line)
        near = (*keys, *(f"{key.partition('.')[0]}.type" for key in keys))
        origins = [self.origins.get(key, "") for key in near]
        if origins[0].startswith(_BY_VARIABLE):
            return self(line)
        places = [origin for origin in origins if origin.startswith(f"{self.path}:")]
        return f"{(*places, self.path)[0]}: {self(line)}"

    def _key(self, name: str) -> JobKey | None:
        """Return the key of a setting; None if it has none, or was given by a flag."""
        key = key_of(name)
        is_flag = key is not None and self.origins.get(key.path, "").startswith("flag ")
        return None if is_flag else key

    def _word(self, setting: Setting) -> str:
        key = self._key(setting.name)
        if key is None:
            return as_flag(setting)
        origin = self.origins.get(key.path, "")
        if setting.is_subject and origin.startswith(_BY_VARIABLE):
            return origin.removeprefix(_BY_VARIABLE)
        if setting.is_subject or not key.flag_name or setting.name == "state":
            return f"{key.path} {setting.value}".rstrip()
        value = setting.value
        if key.declared.is_switch:
            value = str(key.declared.default is not True).lower()
        text = _as_yaml(key, value) if value else key.path
        return f"{text} ({f'{key.flag_name} {setting.value}'.rstrip()})"


def key_of(name: str) -> JobKey | None:
    """Return the key of a setting, by the name of its field."""
    keys = job_keys()
    if name == "state":
        return keys["state"]
    return next((key for key in keys.values() if key.declared.field == name), None)


def _as_yaml(key: JobKey, value: str) -> str:
    """Return a key with its value as in a job file: `loss: {accept: [acl]}`."""
    section, *names = key.path.split(".")
    text = f"[{value}]" if key.is_list else value
    for name in reversed(names):
        text = f"{{{name}: {text}}}"
    return f"{section}: {text}"
