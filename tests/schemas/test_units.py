from schemas.units import BYTES, SECONDS


def test_sizes_have_units_of_1000_and_of_1024() -> None:
    assert BYTES == {
        "b": 1,
        "kb": 1000,
        "mb": 1_000_000,
        "gb": 1_000_000_000,
        "tb": 1_000_000_000_000,
        "kib": 1024,
        "mib": 1_048_576,
        "gib": 1_073_741_824,
        "tib": 1_099_511_627_776,
    }


def test_durations_have_units_from_days_to_milliseconds() -> None:
    assert SECONDS == {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
