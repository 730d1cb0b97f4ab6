"""What stands in no document: the order of the pages, the HTTP API, and the examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx import addnodes

from docs.site import navigation, openapi

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_SHOWN_LINES_MAX = 250
_LANGUAGES = {
    ".sh": "sh",
    ".toml": "toml",
    ".yaml": "yaml",
    ".conf": "text",
    ".py": "python",
    ".json": "json",
}


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read)
    app.connect("doctree-read", _direct)
    app.connect("build-finished", _index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Any, page: str, source: list[str]) -> None:
    match page:
        case navigation.ROOT_PAGE:
            source[0] += navigation.root_toctrees()
        case navigation.DECISIONS:
            source[0] += navigation.decisions_toctree()
        case navigation.EXAMPLES:
            source[0] += _examples()
        case navigation.HTTP_API:
            app.env.note_dependency(str(openapi.DOCUMENT))
            source[0] += openapi.page()


def _examples() -> str:
    """Each file whole, or a link where it is long."""
    written: list[str] = []
    for path in sorted(path for path in _EXAMPLES.rglob("*") if path.is_file()):
        name = path.relative_to(_EXAMPLES).as_posix()
        written += ["", name, "-" * len(name), "", f":download:`/docs/examples/{name}`", ""]
        if len(path.read_text().splitlines()) <= _SHOWN_LINES_MAX:
            language = _LANGUAGES.get(path.suffix, "text")
            written += [
                f".. literalinclude:: /docs/examples/{name}",
                f"   :language: {language}",
                "",
            ]
    return "\n".join(written)


def _direct(app: Any, document: Any) -> None:
    """What Sphinx would not find by itself, or find twice.

    A link to a folder of examples leads to their page; one to any other folder is dead. A link that
    shows the name of a document shows its title. A type in a signature of the firmware library is
    the library's.
    """
    page = app.env.docname
    for node in document.findall(addnodes.pending_xref):
        if node.get("reftype") == "myst" and _is_folder_of_examples(app.env, node["reftarget"]):
            node["refdomain"], node["reftarget"] = "doc", navigation.EXAMPLES
            node["reftargetid"] = None
        elif node.get("refdomain") == "doc" and _is_file_name(node.astext()):
            node["refexplicit"] = False
        elif page == navigation.FIRMWARE and node["reftarget"] == "Engine":
            node["reftarget"] = "mqttsn.engine.Engine"


def _is_file_name(text: str) -> bool:
    return re.fullmatch(r"[\w/]+\.(md|rst)", text) is not None


def _is_folder_of_examples(env: Any, target: str) -> bool:
    path = Path(env.relfn2path(target)[1])
    return path.is_dir() and path.is_relative_to(_EXAMPLES)


def _index(app: Any, error: Exception | None) -> None:
    """The first page under the name that servers and people look for."""
    first = Path(app.outdir, f"{navigation.ROOT_PAGE}.html")
    if error is None and first.exists():
        Path(app.outdir, "index.html").write_bytes(first.read_bytes())
