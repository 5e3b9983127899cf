"""The errors a user can meet, each with the exit code the command line answers with."""


class DpcalcError(Exception):
    """A problem that is told in one or two lines: where, what was found, what is allowed.

    `where` is a place in a file, or the name of a field; the command line tells the latter by its option.
    """

    exit_code = 2

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class InputError(DpcalcError):
    """The input is wrong: a bad value, a bad file, a violated precondition (exit code 2)."""


class IncompatibleError(InputError):
    """Guarantees that do not fit together: adjacency, sampler or notion differ (exit code 2)."""


class CertificationError(DpcalcError):
    """The input is fine, but the answer could not be certified (exit code 3)."""

    exit_code = 3


class WriteError(CertificationError):
    """The answer is there, but it could not be written (exit code 3)."""


class BusyError(CertificationError):
    """Another process is at the same file (exit code 3)."""
