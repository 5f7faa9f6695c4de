"""What can go wrong, as exceptions. All are PenstockError; some are also what Python has for it."""


class PenstockError(Exception):
    """An error of the engine. `code` is its kind, `retryable` whether trying again may help."""

    code = "unknown"
    retryable = False


class InvalidError(PenstockError, ValueError):
    """What was asked for makes no sense; the message says what would."""


class NotFoundError(PenstockError, FileNotFoundError):
    """No such file, object or field."""


class ExistsError(PenstockError, FileExistsError):
    """It is there already."""


class AccessError(PenstockError, PermissionError):
    """Refused by the operating system or the server."""


class CorruptError(PenstockError):
    """Bytes arrived, and are not the right ones."""


class ChangedError(PenstockError):
    """It is not the version that was asked for any more."""


class TimedOutError(PenstockError, TimeoutError):
    """The deadline passed first."""


class UnsupportedError(PenstockError):
    """This system, format or store cannot do it."""


_CLASSES = {
    "invalid": InvalidError,
    "not_found": NotFoundError,
    "exists": ExistsError,
    "permission": AccessError,
    "corrupt": CorruptError,
    "changed": ChangedError,
    "timeout": TimedOutError,
    "unsupported": UnsupportedError,
}


def make(code, detail, retryable, os_errno):
    """The exception for an error of the engine."""
    error = _CLASSES.get(code, PenstockError)(detail)
    error.code = code
    error.retryable = retryable
    if os_errno:
        error.errno = os_errno
    return error
