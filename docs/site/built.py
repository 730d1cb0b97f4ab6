"""Looks through the built site: dead links, what would be fetched from other hosts, links to them.

    python -m docs.site.built FOLDER

Prints each fault and exits with 1 if there is one. Links to other hosts are not followed: they are
written to FOLDER/external_links.txt, each with the pages that have it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself; a link is followed by a person.
_FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("source", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("video", "src"),
    ("video", "poster"),
    ("audio", "src"),
    ("track", "src"),
    ("use", "href"),
    ("image", "href"),
}
_LINK_RELATIONS_FETCHED = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "modulepreload",
    "manifest",
    "preconnect",
    "dns-prefetch",
}
_IN_CSS = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
# Of a person's links, these are not pages.
_NO_FILE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
EXTERNAL = "external_links.txt"


@dataclass
class Page(HTMLParser):
    """The anchors of a page, what it links and what it fetches."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.fetched += [values[name] for name in values if (tag, name) in _FETCHED]
        self.fetched += _in_css(values.get("style", ""))
        if tag == "link" and set(values.get("rel", "").split()) & _LINK_RELATIONS_FETCHED:
            self.fetched.append(values.get("href", ""))
        elif tag in ("a", "area") and "href" in values:
            self.links.append(values["href"])

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.fetched += _in_css(data)


def _in_css(text: str) -> list[str]:
    return [first or second for first, second in _IN_CSS.findall(text)]


def read(folder: Path) -> dict[Path, Page]:
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        page = Page()
        page.feed(path.read_text())
        page.close()
        pages[path.resolve()] = page
    return pages


def faults(folder: Path, pages: dict[Path, Page] | None = None) -> Iterator[str]:
    """Links to no file or no anchor, and what would be fetched from another host."""
    if pages is None:
        pages = read(folder)
    if not pages:
        yield f"{folder}: there is no page in it; build it with  make docs"
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        for link in page.links:
            if not _NO_FILE.match(link) and (why := _dead(path, link, pages)):
                yield f"{name}: {link}: {why}"
        yield from (f"{name}: {each}" for each in _fetch_faults(path, page.fetched))
    for path in sorted(folder.rglob("*.css")):
        name = path.relative_to(folder)
        yield from (f"{name}: {each}" for each in _fetch_faults(path, _in_css(path.read_text())))


def _dead(path: Path, link: str, pages: dict[Path, Page]) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "a link to a file of one machine"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "there is no such anchor"
    return ""


def _fetch_faults(path: Path, fetched: list[str]) -> Iterator[str]:
    for each in fetched:
        if each.startswith(("data:", "#")):
            continue
        if _ELSEWHERE.match(each):
            yield f"{each}: would be fetched from another host"
        elif not (path.parent / unquote(urlsplit(each).path)).is_file():
            yield f"{each}: there is no such file to be fetched"


def external_links(folder: Path, pages: dict[Path, Page]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path, page in pages.items():
        for link in sorted({link for link in page.links if link.startswith(("http:", "https:"))}):
            found[link].append(str(path.relative_to(folder.resolve())))
    return dict(sorted(found.items()))


def main(folder: Path) -> int:
    pages = read(folder)
    found = list(faults(folder, pages))
    links = external_links(folder, pages)
    lines = [f"{link}  ({len(on)} pages, {on[0]})\n" for link, on in links.items()]
    if folder.is_dir():
        (folder / EXTERNAL).write_text("".join(lines))
    sys.stdout.writelines(f"{each}\n" for each in found)
    sys.stdout.write(f"{len(links)} links to other hosts, {len(found)} faults\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
