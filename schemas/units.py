"""Units of sizes and durations, in lower case."""

BYTES = {"b": 1}
"""Bytes of each unit of size: `kb` is 1000 bytes, `kib` 1024."""

BYTES |= {f"{unit}b": 1000**power for power, unit in enumerate("kmgt", start=1)}
BYTES |= {f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", start=1)}

SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
"""Seconds of each unit of time, in descending order."""
