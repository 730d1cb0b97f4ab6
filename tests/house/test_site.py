"""The documentation site has every document, its links lead somewhere, and it fetches nothing."""

from __future__ import annotations

import asyncio
import fnmatch
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site import built, navigation
from docs.site.docstrings import as_rest, shortened
from tests.admin.web.browser import PHONE, needs_browser, opened
from tests.house import house_rules

REPOSITORY = Path(__file__).resolve().parents[2]
needs_sphinx = pytest.mark.skipif(
    importlib.util.find_spec("furo") is None,
    reason="not run: the site's packages are not installed: make docs",
)
WIDE = ("index.html", "docs/configuration.html", "docs/messages.html", "docs/site/http_api.html")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--quiet",
        "--fresh-env",
        "--conf-dir",
        "docs/site",
    ]
    places = ["--doctree-dir", str(folder / "doctrees"), ".", str(folder / "site")]
    run = subprocess.run(
        [sys.executable, *command, *places],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return folder / "site"


def listed() -> list[str]:
    return [page for part in navigation.PARTS.values() for page in part]


def test_every_document_is_a_page_of_the_site() -> None:
    documents = [
        path.relative_to(REPOSITORY).with_suffix("").as_posix()
        for path in house_rules.tracked(REPOSITORY)
        if path.suffix in (".md", ".rst") and path.relative_to(REPOSITORY).parts[0] != ".github"
    ]
    missing = [
        f"{name}: add it to PARTS of docs/site/navigation.py"
        for name in documents
        if not any(fnmatch.fnmatch(name, page) for page in navigation.pages())
    ]
    assert missing == []
    assert [page for page in listed() if page not in documents] == []
    assert len(set(listed())) == len(listed())


def plant(folder: Path, body: str) -> Path:
    (folder / "sub").mkdir()
    (folder / "sub" / "there.html").write_text('<h1 id="top">There</h1>')
    (folder / "local.css").write_text("body { background: url('local.css') }")
    (folder / "page.html").write_text(f'<html><body id="here">{body}</body></html>')
    return folder


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">x</a>', "page.html: gone.html: there is no such file"),
        ('<a href="sub">x</a>', "page.html: sub: there is no such file"),
        ('<a href="#nowhere">x</a>', "page.html: #nowhere: there is no such anchor"),
        ('<a href="sub/there.html#gone">x</a>', "there is no such anchor"),
        ('<a href="file:///etc/passwd">x</a>', "a link to a file of one machine"),
        ('<script src="https://cdn.example/x.js"></script>', "fetched from another host"),
        ('<script src="//cdn.example/x.js"></script>', "fetched from another host"),
        ('<link rel="stylesheet" href="https://fonts.example/a.css">', "fetched from another host"),
        ("<style>@import 'https://fonts.example/a.css';</style>", "fetched from another host"),
        ('<p style="background: url(https://img.example/a.png)">', "fetched from another host"),
        ('<img src="gone.png">', "gone.png: there is no such file to be fetched"),
    ],
)
def test_what_is_dead_or_of_another_host_is_found(tmp_path: Path, body: str, fault: str) -> None:
    (found,) = built.faults(plant(tmp_path, body))
    assert fault in found


def test_a_style_sheet_that_fetches_from_another_host_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "")
    (tmp_path / "local.css").write_text("@font-face { src: url(https://fonts.example/a.woff2) }")
    (found,) = built.faults(tmp_path)
    assert found == "local.css: https://fonts.example/a.woff2: would be fetched from another host"


def test_a_folder_without_pages_is_a_fault(tmp_path: Path) -> None:
    (found,) = built.faults(tmp_path)
    assert "there is no page in it" in found


def test_links_of_people_may_leave_the_site_and_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = ["sub/there.html#top", "#here", "https://example.org/x", "mailto:a@example.org"]
    plant(tmp_path, "".join(f'<a href="{link}">x</a>' for link in links))
    assert built.main(tmp_path) == 0
    assert "1 links to other hosts, 0 faults" in capsys.readouterr().out
    assert (
        tmp_path / built.EXTERNAL
    ).read_text() == "https://example.org/x  (1 pages, page.html)\n"


def test_a_docstring_is_shown_as_it_is_meant() -> None:
    text = "It takes `a*b` of *all:\n- one, two_\n- three\n\n    from x import y\n\nEnd."
    assert as_rest(text.splitlines()) == [
        "It takes ``a*b`` of \\*all:",
        "",
        "- one, two\\_",
        "- three",
        "",
        ".. code-block:: python",
        "",
        "    from x import y",
        "",
        "End.",
    ]


def test_a_union_is_shown_by_its_name_and_a_type_without_quotes() -> None:
    alias = "list[TypeAliasForwardRef('gateway.core.effects.Effect')]"
    assert shortened(alias) == "list[gateway.core.effects.Effect]"
    assert shortened("(a: 'int', b: str = 'x')") == "(a: int, b: str = 'x')"


@needs_sphinx
@pytest.mark.timeout(300)
def test_the_site_is_built_without_a_warning_and_has_no_fault(site: Path) -> None:
    assert list(built.faults(site)) == []
    for page in (*listed(), "index", "docs/decisions/0001-core-without-io"):
        assert (site / f"{page}.html").is_file()


@needs_sphinx
@needs_browser
@pytest.mark.timeout(300)
def test_search_finds_without_a_server(site: Path) -> None:
    async def look() -> None:
        async with opened((site / "index.html").as_uri()) as page:
            await page.get_by_placeholder("Search").fill("retry_after_s")
            await page.keyboard.press("Enter")
            found = page.locator("#search-results").get_by_role("link", name="Configuration")
            await found.first.wait_for()

    asyncio.run(look())


@needs_sphinx
@needs_browser
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", WIDE)
def test_no_page_is_wider_than_a_phone(site: Path, name: str) -> None:
    async def look() -> None:
        async with opened((site / name).as_uri(), size=PHONE) as page:
            wider = "document.documentElement.scrollWidth - window.innerWidth"
            assert await page.evaluate(wider) <= 0

    asyncio.run(look())
