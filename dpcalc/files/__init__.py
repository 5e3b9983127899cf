"""Files, as they come and as they are left: one writer, one bounded reader, and archives of arrays that tell edits."""

from dpcalc.files.reader import LIMIT, STANDARD_STREAM, lines, not_reading, read_bytes, read_text, reading, reason
from dpcalc.files.writer import (
    PRIVATE,
    SHARED,
    check_paths,
    check_writable,
    growing,
    locked,
    reserve,
    write_text,
    writing,
)

__all__ = [
    "LIMIT",
    "PRIVATE",
    "SHARED",
    "STANDARD_STREAM",
    "check_paths",
    "check_writable",
    "growing",
    "lines",
    "locked",
    "not_reading",
    "read_bytes",
    "read_text",
    "reading",
    "reason",
    "reserve",
    "write_text",
    "writing",
]
