"""The command `termweave`. Each command reads its options, calls one function of a package, and prints the result.

Packages are imported inside the commands: torch and numba take seconds to load, which `--help` should not cost.
"""

# In the order of `--help`.
from termweave.cli import (  # noqa: I001
    preparation as preparation,
    training as training,
    translation as translation,
    glossaries as glossaries,
    serving as serving,
    measuring as measuring,
    experiments as experiments,
    importing as importing,
)
from termweave.cli.application import app, clear_errors, share_processors

__all__ = ["app", "main"]


def main() -> None:
    share_processors()
    with clear_errors():
        app()
