"""Units in which sizes and durations are written, in small letters."""

BYTES = {"b": 1}
"""How many bytes a unit of size has: those of 1000 and those of 1024, as `kb` and `kib`."""

BYTES |= {f"{unit}b": 1000**power for power, unit in enumerate("kmgt", start=1)}
BYTES |= {f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", start=1)}

SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
"""How many seconds a unit of time has, the longest first."""
