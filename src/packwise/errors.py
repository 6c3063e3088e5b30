"""Every exception a caller of Packwise can meet.

    PackwiseError
    ├── UsageError              the call or the command line is wrong (exit code 2)
    │   └── SettingError        a knob has a value it cannot take
    ├── SourceError             a document or folder cannot be read
    ├── ModelError              a model cannot be used
    │   ├── ModelMissing        not found on this machine
    │   ├── ModelCorrupt        found, but its bytes are not the expected ones
    │   └── CallFailed          a language model did not answer
    ├── StoreError              a store cannot be used
    │   ├── StoreMissing        nothing is there
    │   ├── NotAStore           something else is there
    │   ├── StoreBusy           another process is writing
    │   ├── StoreFull           no room left on the disk
    │   ├── StoreUnreachable    its server does not answer, or does not let us in
    │   ├── StoreTimeout        its server took longer than it was allowed to
    │   └── EmbedderMismatch    the store was built with another embedder
    └── DataError               an evaluation data set or a golden file is malformed

Each message is one line that says what is wrong; ``fix`` is the command or the
action that mends it, and is part of ``str(error)``.
"""

from __future__ import annotations


class PackwiseError(Exception):
    """Base of all errors raised on purpose; ``str()`` is fit to show a user."""

    exit_code = 1

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message} -> {self.fix}" if self.fix else self.message


class UsageError(PackwiseError):
    """The call or the command line is wrong."""

    exit_code = 2


class SettingError(UsageError):
    """A knob has a value it cannot take."""


class SourceError(PackwiseError):
    """A document or a folder cannot be read."""


class ModelError(PackwiseError):
    """A model cannot be used."""


class ModelMissing(ModelError):
    """The model is not on this machine."""


class ModelCorrupt(ModelError):
    """The model's files are there, but their bytes are not the expected ones."""


class CallFailed(ModelError):
    """A language model did not answer.

    ``reason`` is a few words that never quote the server, so it is fit for a log;
    ``retryable`` says whether the same call may work in a moment, ``pause`` how many
    seconds the server asked to wait.
    """

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        detail: str = "",
        retryable: bool = False,
        pause: float | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(f"{model}: {reason}{f' ({detail})' if detail else ''}", fix=fix)
        self.reason = reason
        self.retryable = retryable
        self.pause = pause


class StoreError(PackwiseError):
    """A store cannot be used."""


class StoreMissing(StoreError):
    """There is no store at that place."""


class NotAStore(StoreError):
    """Something is there, but it is not a store."""


class StoreBusy(StoreError):
    """Another process is writing to the store."""


class StoreFull(StoreError):
    """The disk has no room left; what was stored before is untouched."""


class StoreUnreachable(StoreError):
    """The store's server does not answer, or does not let us in."""


class StoreTimeout(StoreError):
    """The store's server took longer than it was allowed to."""


class EmbedderMismatch(StoreError):
    """The store's vectors come from another embedder or another version of it."""


class DataError(PackwiseError):
    """An evaluation data set or a golden file is malformed."""
