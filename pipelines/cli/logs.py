"""The one place that configures logging, for the command and for its worker processes."""

import logging

_OURS = ("pipelines", "schemas", "transforms")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_BEAM = "apache_beam"


def configure(verbosity: int) -> None:
    """Log to stderr: -1 (`-q`) errors, 0 warnings too, 1 (`-v`) progress too, 2 (`-vv`) all.

    Libraries log two levels below that. Beam logs nothing before `-vv`: what is an error of the run
    reaches the user as an exception. Call this before Beam is imported, which logs as it loads.
    """
    ours = min(verbosity + 1, len(_LEVELS) - 1)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger().setLevel(_LEVELS[max(ours - 2, 0)])
    for name in _OURS:
        logging.getLogger(name).setLevel(_LEVELS[ours])
    beam = logging.WARNING if verbosity > 1 else logging.CRITICAL + 1
    logging.getLogger(_BEAM).setLevel(beam)
