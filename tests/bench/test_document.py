"""Only what stands between the markers of the document is written."""

from pathlib import Path

import pytest

from tests.bench.document import BEGIN, DOCUMENT, END, DocumentError, with_section, write_section


def test_the_section_is_replaced_and_the_rest_kept() -> None:
    before = f"# Title\n\n{BEGIN}\nold\nlines\n{END}\n\nThe end.\n"
    assert with_section(before, "\nnew\n\n") == f"# Title\n\n{BEGIN}\nnew\n{END}\n\nThe end.\n"


def test_writing_twice_is_writing_once() -> None:
    once = with_section(f"{BEGIN}\n{END}\n", "new")
    assert with_section(once, "new") == once


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_document_without_its_markers_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(text)
    with pytest.raises(DocumentError, match=r"performance\.md"):
        write_section("new", path)
    assert path.read_text() == text


def test_the_document_of_this_project_has_its_markers() -> None:
    assert "new figures" in with_section(DOCUMENT.read_text(), "new figures")
