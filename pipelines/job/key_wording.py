"""Messages about flags in terms of the keys of a job file."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from pipelines.job.job_keys import JobKey, job_keys
from schemas.errors import ConfigError, FeedferryError

_FLAG = re.compile(
    r"(?<![\w-])(?<!\w \()(?<!\} \()(?P<name>--?[a-z][a-z-]*|INPUT)(?![\w-])"
    r"(?: (?P<word>[\w%-]+(?:[.,][\w%-]+)*))?"
)


@contextmanager
def errors_in_keys(wording: "KeyWording | None") -> Iterator[None]:
    """Raise the errors in the block in terms of the keys of a job; without wording, as they are."""
    try:
        yield
    except FeedferryError as exc:
        if wording is not None:
            exc.args = (wording.located(str(exc)),)
        raise


class KeyWording(msgspec.Struct, frozen=True):
    """Texts about flags in terms of the keys of a job file, with each flag in parentheses.

    A flag that was given stays a flag. The flags may be those of one struct only, `options`.
    """

    path: Path
    origins: Mapping[str, str]
    options: type[msgspec.Struct] | None = None

    def __call__(self, text: str) -> str:
        return self._reworded(text)[0]

    def located(self, message: str) -> str:
        """Return a message, in each line with the place of the first key that has one."""
        lines = []
        for line in message.splitlines():
            text, keys = self._reworded(line)
            near = (*keys, *(f"{key.partition('.')[0]}.type" for key in keys))
            origins = (self.origins.get(key, "") for key in near)
            places = [origin for origin in origins if origin.startswith(f"{self.path}:")]
            lines.append(f"{(*places, self.path)[0]}: {text}" if keys else line)
        return "\n".join(lines)

    def _reworded(self, line: str) -> tuple[str, list[str]]:
        """Return a line with keys, and the keys."""
        mentioned: list[str] = []

        def reword(match: re.Match[str]) -> str:
            name, word = match["name"], match["word"]
            if name == "--state":
                mentioned.append("state")
                return match[0].removeprefix("--")
            keys = [
                key
                for key in job_keys().values()
                if name in key.declared.names
                and self.options in (None, key.options)
                and not self.origins.get(key.path, "").startswith("flag ")
            ]
            if not keys:
                return match[0]
            key = next((key for key in keys if _is_value(key, word)), keys[-1])
            mentioned.append(key.path)
            after = match[0].removeprefix(name)
            if not match.start() or not key.flag_name:
                return key.path + after
            if _is_value(key, word):
                return f"{_as_yaml(key, word)} ({key.flag_name} {word})"
            is_off = key.declared.default is True
            text = _as_yaml(key, str(not is_off).lower()) if key.declared.is_switch else key.path
            return f"{text} ({key.flag_name}){after}"

        return _FLAG.sub(reword, line), mentioned


def _is_value(key: JobKey, word: str) -> bool:
    """Whether the word after a flag is its value, and not the next word of the sentence."""
    parse = key.declared.value.parse
    if not word or key.declared.is_switch or parse is str:
        return bool(word) and word.isupper() and not key.declared.is_switch
    with suppress(ConfigError):
        return parse(word) is not None
    return False


def _as_yaml(key: JobKey, value: str) -> str:
    """Return a key with its value as in a job file: `loss: {accept: [acl]}`."""
    section, *names = key.path.split(".")
    text = f"[{value}]" if key.is_list else value
    for name in reversed(names):
        text = f"{{{name}: {text}}}"
    return f"{section}: {text}"
