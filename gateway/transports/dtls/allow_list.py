"""The file of `dtls.allow_file`: subjects of certificates that may come in, one a line.

A line is a pattern, in which `*` stands for any text. Space around it, empty lines, and lines that
begin with `#` do not count. A file without any subject is refused: it may be half written, and
without a list all that the authority vouches for would come in.
"""

from __future__ import annotations

from gateway.transports.errors import LinkError

SUBJECTS_MAX = 10_000
SUBJECT_BYTES_MAX = 255
LIST_BYTES_MAX = 4 << 20  # every subject at its longest, and remarks


def subjects_in(content: bytes) -> tuple[str, ...]:
    """In their order. Raises LinkError with the line and what is wrong with it."""
    if len(content) > LIST_BYTES_MAX:
        raise LinkError(f"dtls.allow_file has more than {LIST_BYTES_MAX >> 20} MiB")
    subjects = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        subject = line.strip()
        if not subject or subject.startswith(b"#"):
            continue
        subjects.append(_subject(subject, number))
        if len(subjects) > SUBJECTS_MAX:
            raise LinkError(f"dtls.allow_file has more than {SUBJECTS_MAX} subjects")
    if not subjects:
        raise LinkError("dtls.allow_file holds no subject")
    return tuple(subjects)


def _subject(line: bytes, number: int) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = ""
    if len(line) > SUBJECT_BYTES_MAX or not text.isprintable() or not text:
        raise LinkError(
            f"dtls.allow_file, line {number}: expected one subject of 1 to {SUBJECT_BYTES_MAX} "
            "bytes without control characters"
        )
    return text
