"""The retry policy, with an injected jitter."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.net.retry import RetryPauses, RetryPolicy, retry


def policy(**limits: float) -> RetryPolicy:
    """Return a policy without jitter."""
    return RetryPolicy(jitter=lambda: 1.0, **limits)  # type: ignore[arg-type]  # attempts are whole


def pauses(
    retry_policy: RetryPolicy, *, limited: str = "yyyy", at_least: float | None = None
) -> list[float | None]:
    """Return the pauses after failures, which are limited or not."""
    after = RetryPauses(retry_policy)
    return [after.next_seconds(at_least=at_least, is_limited=letter == "y") for letter in limited]


def test_pauses_double_up_to_the_maximum() -> None:
    assert pauses(policy(first_seconds=2, max_seconds=9)) == [2, 4, 8, 9]


def test_many_failures_do_not_overflow() -> None:
    assert policy().pause_seconds(1_000_000) == 300


@given(
    jitter=st.floats(min_value=0, max_value=1),
    failures=st.integers(1, 5000),
    least=st.floats(0, 10),
)
def test_jitter_keeps_a_pause_within_its_bounds(jitter: float, failures: int, least: float) -> None:
    retry_policy = RetryPolicy(first_seconds=10, min_seconds=least, jitter=lambda: jitter)

    assert least <= retry_policy.pause_seconds(failures) <= 300


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_attempts": 3}, [1, 2, None, None]),
        ({"max_attempts": 1}, [None] * 4),
        ({"max_total_seconds": 7}, [1, 2, 4, None]),
        ({"max_total_seconds": 6.9}, [1, 2, None, None]),
    ],
)
def test_attempts_and_total_time_are_limited(
    limits: dict[str, float], expected: list[object]
) -> None:
    assert pauses(policy(**limits)) == expected


def test_failures_without_a_limit_have_pauses_of_their_own() -> None:
    assert pauses(policy(max_attempts=2), limited="nnnnyy") == [1, 2, 4, 8, 1, None]


@pytest.mark.parametrize("limited", ["yyy", "nnn"])
def test_a_pause_is_at_least_what_the_other_side_asks_for(limited: str) -> None:
    assert pauses(policy(), limited=limited, at_least=3) == [3, 3, 4]


def test_a_requested_pause_beyond_the_total_ends_the_attempts() -> None:
    assert pauses(policy(), limited="y", at_least=3601) == [None]


def test_a_policy_can_be_sent_to_a_worker() -> None:
    assert 0 <= pickle.loads(pickle.dumps(RetryPolicy())).pause_seconds(1) <= 1


def run_retry(*errors: Exception, max_attempts: int = 3) -> tuple[str, list[float]]:
    slept: list[float] = []
    left = list(errors)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "done"

    result = retry(
        operation,
        policy(max_attempts=max_attempts),
        is_temporary=lambda error: isinstance(error, OSError),
        sleep=slept.append,
    )
    return result, slept


def test_an_operation_is_repeated_while_its_error_is_temporary() -> None:
    assert run_retry(OSError(), OSError()) == ("done", [1, 2])


@pytest.mark.parametrize("errors", [[ValueError("last")], [OSError(), OSError(), OSError("last")]])
def test_the_last_error_is_raised(errors: list[Exception]) -> None:
    with pytest.raises((ValueError, OSError), match="last"):
        run_retry(*errors)
