"""Files, as they come and as they are left: one writer, one bounded reader, and archives of arrays that tell edits."""

from dpcalc.files.reader import LIMIT, STANDARD_STREAM, lines, read_bytes, read_text, reading, reason
from dpcalc.files.writer import (
    PRIVATE,
    SHARED,
    allocate,
    check_paths,
    check_writable,
    locked,
    write_text,
    writing,
)

__all__ = [
    "LIMIT",
    "PRIVATE",
    "SHARED",
    "STANDARD_STREAM",
    "allocate",
    "check_paths",
    "check_writable",
    "lines",
    "locked",
    "read_bytes",
    "read_text",
    "reading",
    "reason",
    "write_text",
    "writing",
]
