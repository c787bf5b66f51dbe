"""Every error Termweave raises on purpose.

TermweaveError
├── ConfigError        a configuration file or an option is wrong
├── DataError          input text, links or a prepared corpus cannot be used
│   └── BusyError      another command is at work in the same folder
├── ConstraintError    a constraint cannot be used
├── CheckpointError    a model folder is missing, damaged or of another kind
├── TrainingError      training cannot start or go on
└── StoreError         what a server remembers cannot be read or written

Messages say what is wrong, where, and what to do about it. The command line prints them without a traceback.
"""

from __future__ import annotations


class TermweaveError(Exception):
    """Base of all errors a user can mend."""


class ConfigError(TermweaveError):
    """A configuration file or an option is wrong."""


class DataError(TermweaveError):
    """Input text, links or a prepared corpus cannot be used."""


class BusyError(DataError):
    """Another command is at work in the same folder."""


class ConstraintError(TermweaveError):
    """A constraint cannot be used."""


class CheckpointError(TermweaveError):
    """A model folder is missing, damaged or of another kind."""


class TrainingError(TermweaveError):
    """Training cannot start or go on."""


class StoreError(TermweaveError):
    """What a server remembers cannot be read or written."""
