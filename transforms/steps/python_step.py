"""`python`: a function of the user, `package.module:function`."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import msgspec

from feedferry.schemas.errors import ConfigError, FeedferryError, RecordError
from feedferry.schemas.record import Record
from feedferry.transforms.config.yaml_structs import Value, parse_text
from feedferry.transforms.steps.step import TransformStep

Function = Callable[[Record], object]


def _parse_function(value: object) -> str:
    text = parse_text(value)
    module, separator, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not separator or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{text!r}; expected package.module:function")
    return text


class PythonRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The function; with `from_job_folder`, its module may be in the folder of the job file."""

    function: Annotated[str, Value(_parse_function, "package.module:function")]
    from_job_folder: bool = False

    @classmethod
    def from_scalar(cls, value: object) -> "PythonRule":
        return cls(function=_parse_function(value))


class PythonStep(TransformStep):
    """Calls the function with each record; an exception rejects the record."""

    def __init__(self, rule: PythonRule, *, base: Path) -> None:
        self._name = rule.function
        self._function = _load(rule, base)

    def apply(self, record: Record) -> Record | Sequence[Record] | None:
        try:
            made = self._function(record)
        except FeedferryError:
            raise
        except Exception as exc:
            reason = f"{self._name}: {type(exc).__name__}: {exc}"
            raise RecordError("python-failed", reason) from exc
        if made is None or isinstance(made, Record):
            return made
        if isinstance(made, list | tuple) and all(isinstance(item, Record) for item in made):
            return made or None
        raise RecordError(
            "python-failed",
            f"{self._name}: returned {type(made).__name__}; expected a Record, a list of them or"
            " None",
        )


def _load(rule: PythonRule, base: Path) -> Function:
    module, _, name = rule.function.partition(":")
    folder = str(base.absolute())
    if rule.from_job_folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        found = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as exc:
        where = "" if rule.from_job_folder else "; from_job_folder: true looks next to the job file"
        raise ConfigError(f"python: {rule.function!r}: {exc}{where}") from exc
    if not callable(found):
        raise ConfigError(f"python: {rule.function!r}: no function; expected a function")
    return found
