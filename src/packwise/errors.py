"""Every exception that Packwise raises on purpose.

    PackwiseError
    ├── UsageError              the call or the command line is wrong (exit code 2)
    │   └── SettingError        a setting has an invalid value
    ├── SourceError             a document or folder cannot be read
    ├── ModelError              a model cannot be used
    │   ├── ModelMissing        not found on this machine
    │   ├── ModelCorrupt        found, but its bytes are not the expected ones
    │   └── CallFailed          a model behind a server did not answer
    ├── StoreError              a store cannot be used
    │   ├── StoreMissing        there is nothing at that place
    │   ├── NotAStore           there is something else at that place
    │   ├── StoreDamaged        a row or a file of it does not hold what was written
    │   ├── StoreBusy           another process is writing
    │   ├── StoreFull           no room left on the disk
    │   ├── StoreUnreachable    its server does not answer or refuses access
    │   ├── StoreTimeout        its server took too long
    │   └── EmbedderMismatch    the store was built with another embedder
    └── DataError               an evaluation data set or a golden file is malformed

Each message is one line that says what is wrong; ``fix`` is the command or the action that
fixes it, and is part of ``str(error)``.
"""

from __future__ import annotations


class PackwiseError(Exception):
    """Base of all errors; ``str(error)`` can be shown to a user."""

    exit_code = 1

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes, whatever arguments a subclass needs.
        return _rebuilt, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        return f"{self.message} -> {self.fix}" if self.fix else self.message


def _rebuilt(kind: type[PackwiseError], arguments: tuple[object, ...]) -> PackwiseError:
    return kind.__new__(kind, *arguments)


class UsageError(PackwiseError):
    """The call or the command line is wrong."""

    exit_code = 2


class SettingError(UsageError):
    """A setting has an invalid value."""


class SourceError(PackwiseError):
    """A document or a folder cannot be read.

    ``withdraw`` says that a version stored earlier must not stay either, because it is not
    known who may see it.
    """

    def __init__(self, message: str, *, fix: str | None = None, withdraw: bool = False) -> None:
        super().__init__(message, fix=fix)
        self.withdraw = withdraw


class ModelError(PackwiseError):
    """A model cannot be used."""


class ModelMissing(ModelError):
    """The model is not on this machine."""


class ModelCorrupt(ModelError):
    """The model's files do not have the expected bytes."""


class CallFailed(ModelError):
    """A model behind a server did not answer.

    ``reason`` is a few words that never quote the server, so it can be logged. ``retryable``
    says whether the same call may work later, ``pause`` how many seconds the server asked to
    wait, ``status`` is its HTTP status or 0.
    """

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        detail: str = "",
        retryable: bool = False,
        pause: float | None = None,
        status: int = 0,
        fix: str | None = None,
    ) -> None:
        super().__init__(f"{model}: {reason}{f' ({detail})' if detail else ''}", fix=fix)
        self.reason = reason
        self.retryable = retryable
        self.pause = pause
        self.status = status


class StoreError(PackwiseError):
    """A store cannot be used."""


class StoreMissing(StoreError):
    """There is no store at that place."""


class NotAStore(StoreError):
    """There is something at that place, but it is not a store."""


class StoreDamaged(StoreError):
    """A row or a file of the store does not hold what was written."""


class StoreBusy(StoreError):
    """Another process is writing to the store."""


class StoreFull(StoreError):
    """The disk is full; stored content is unchanged."""


class StoreUnreachable(StoreError):
    """The store's server does not answer or refuses access."""


class StoreTimeout(StoreError):
    """The store's server took too long."""


class EmbedderMismatch(StoreError):
    """The store's vectors come from another embedder or another version of it."""


class DataError(PackwiseError):
    """An evaluation data set or a golden file is malformed."""


MALFORMED = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading a file of another shape than expected raises: a pack may come from someone else."""


def expect(value: object, kinds: type | tuple[type, ...], takes: str) -> None:
    """Raise ``UsageError`` unless a caller gave a value of one of these types."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise UsageError(f"{takes}, not {value!r}")
