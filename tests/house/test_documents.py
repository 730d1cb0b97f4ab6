"""Links of the documents lead somewhere. What they show is tried in tests/docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import house_rules
from tests.support.samples import for_each

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in house_rules.tracked(REPOSITORY) if path.suffix == ".md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)|href=\"([^\"]+)\"|src=\"([^\"]+)\"")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def slugs(text: str) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    found: set[str] = set()
    for line in _CODE.sub("", text).splitlines():
        if line.startswith("#"):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found | set(re.findall(r'<a id="([^"]+)"', text))


def broken(path: Path) -> Iterator[str]:
    text = path.read_text()
    for link in ("".join(groups) for groups in _LINK.findall(_CODE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in slugs(target.read_text()):
            yield f"{link}: there is no such heading"


@for_each("path", DOCUMENTS, shown=str)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert list(broken(path)) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[x](gone.md)", "no such file"),
        ("[x](there.md#nowhere)", "no such heading"),
        ("[x](#here)", "no such heading"),
        ("[x](there.md#some-other-words)", None),
        ("[x](there.md) [y](https://example.org/z)", None),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, link: str, why: str | None) -> None:
    (tmp_path / "there.md").write_text("# Some, other `words`\n")
    page = tmp_path / "page.md"
    page.write_text(link)
    found = list(broken(page))
    assert len(found) == (why is not None)
    assert all(str(why) in each for each in found)
