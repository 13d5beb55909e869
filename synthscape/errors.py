"""Every error a caller can meet.

::

    SynthscapeError
    ├── SpecError      a spec, an override or a command-line value is wrong
    ├── StoreError     a ClipStore is missing, damaged, of another rate, or lacks a column
    ├── AudioError     one audio file or clip can't be used (has a ``reason`` to count by)
    ├── PlanError      what the spec asks can't be planned with these stores
    ├── MixError       a planned item can't be rendered
    ├── DatasetError   a rendered dataset is missing, damaged, or is another spec's
    └── StorageError   what is behind a URL can't be reached, or is refused

A message names the file, row or key, what was expected, what was got, and what to do.
"""


class SynthscapeError(Exception):
    """Base of all errors raised on purpose."""


class SpecError(SynthscapeError):
    """A spec, an override or a command-line value is wrong."""


class StoreError(SynthscapeError):
    """A ClipStore is missing, damaged, of another rate, or lacks a column."""


class AudioError(SynthscapeError):
    """One audio file or clip can't be used.

    ``reason`` is a short code from a closed list, so that rejections can be counted.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


class PlanError(SynthscapeError):
    """What the spec asks can't be planned with these stores."""


class MixError(SynthscapeError):
    """A planned item can't be rendered."""


class DatasetError(SynthscapeError):
    """A rendered dataset is missing, damaged, or is another spec's."""


class StorageError(SynthscapeError):
    """What is behind a URL can't be reached, or is refused."""
