"""Repeat a call of a program after a temporary failure."""

import logging
import math
from collections.abc import Callable
from typing import TypeVar

from schemas.errors import RecordError
from transforms.retry import RetryPolicy, retry
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import CancelToken

TEMPORARY = frozenset(
    {"program-exit", "program-signal", "program-timeout", "repository-unavailable"}
)
"""Codes of failures after which a call is repeated."""

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def attempt(call: Callable[[], _Result], *, programs: Programs, token: CancelToken) -> _Result:
    """Return the result of `call`; repeat it after a temporary failure, or raise its last error.

    There are `programs.retries` retries. `token` ends a pause when the run ends.
    """
    policy = RetryPolicy(
        first_seconds=programs.backoff_seconds,
        max_attempts=programs.retries + 1,
        max_total_seconds=math.inf,
    )
    return retry(call, policy, is_temporary=_is_temporary, sleep=token.sleep, notify=_log_retry)


def _is_temporary(error: Exception) -> bool:
    return isinstance(error, RecordError) and error.code in TEMPORARY


def _log_retry(error: Exception, seconds: float) -> None:
    _log.info("program: %s; next attempt in %.0f s", getattr(error, "code", error), seconds)
