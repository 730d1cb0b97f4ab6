"""The file of subjects that may come in."""

from __future__ import annotations

import pytest

from gateway.config.dtls_keys import SUBJECTS_MAX as CONFIGURED_MAX
from gateway.transports.dtls.allow_list import LIST_BYTES_MAX, SUBJECTS_MAX, subjects_in
from gateway.transports.errors import LinkError


def test_a_subject_a_line_without_space_around_it_and_remarks() -> None:
    content = b"\xef\xbb\xbf# garden\r\ntank\r\n\n  well-*  \n\t# none\nB\xc3\xa4r 7"
    assert subjects_in(content) == ("tank", "well-*", "B\u00e4r 7")


def test_as_many_as_the_configuration_may_have_itself() -> None:
    assert SUBJECTS_MAX == CONFIGURED_MAX
    longest = b"x" * 255 + b"\n"
    assert len(longest) * SUBJECTS_MAX < LIST_BYTES_MAX
    assert len(subjects_in(longest * SUBJECTS_MAX)) == SUBJECTS_MAX


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no subject"),
        (b"# none\n\n", "holds no subject"),
        (b"tank\nw\x00ll\n", "line 2: expected one subject of 1 to 255 bytes"),
        (b"tank\n\xff\n", "line 2: expected"),
        (b"x" * 256, "line 1: expected"),
        (b"x\n" * (SUBJECTS_MAX + 1), "more than 10000 subjects"),
        (b" " * (LIST_BYTES_MAX + 1), "more than 4 MiB"),
    ],
    ids=["empty", "remarks", "control", "not UTF-8", "long", "many", "large"],
)
def test_what_is_no_list_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(LinkError, match=said):
        subjects_in(content)
