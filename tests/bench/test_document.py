"""Only what stands between the markers of the document is written."""

from pathlib import Path

import pytest

from tests.bench.document import (
    DOCUMENT,
    LINES_MAX,
    SECTIONS,
    DocumentError,
    markers,
    with_section,
    write_section,
)

BEGIN, END = markers("bench")


def test_the_section_is_replaced_and_the_rest_kept() -> None:
    before = f"# Title\n\n{BEGIN}\nold\nlines\n{END}\n\nThe end.\n"
    assert (
        with_section(before, "\nnew\n\n", "bench")
        == f"# Title\n\n{BEGIN}\nnew\n{END}\n\nThe end.\n"
    )


def test_writing_twice_is_writing_once() -> None:
    once = with_section(f"{BEGIN}\n{END}\n", "new", "bench")
    assert with_section(once, "new", "bench") == once


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_document_without_its_markers_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(text)
    with pytest.raises(DocumentError, match=r"performance\.md"):
        write_section("new", "bench", path)
    assert path.read_text() == text


def test_plots_lie_where_the_document_looks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(f"{BEGIN}\n{END}\n")
    (tmp_path / "images").mkdir()
    write_section("[a curve](images/load.svg)", "bench", path, {"load.svg": "<svg/>"})
    assert "[a curve](images/load.svg)" in path.read_text()
    assert (tmp_path / "images/load.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("name", SECTIONS)
def test_the_document_of_this_project_has_its_markers(name: str) -> None:
    assert "new figures" in with_section(DOCUMENT.read_text(), "new figures", name)


def test_the_document_of_this_project_is_short() -> None:
    assert len(DOCUMENT.read_text().splitlines()) <= LINES_MAX
