"""The documentation site: `make docs` builds build/site from the documents where they are.

The source folder of Sphinx is the whole repository, so that a link between documents, or to a
file, is the same on the site as on a forge, and is looked up when the site is built. What stands
only here are the order of the pages (navigation.py) and the pages that are made from code
(made_pages.py, api/). Nothing that a browser fetches is on another host.
"""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "firmware")]

from docs.site.navigation import ROOT_PAGE, pages  # noqa: E402

project = "Tidegate"
author = "the Tidegate authors"
html_title = "Tidegate"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docs.site.made_pages",
    "docs.site.docstrings",
]
root_doc = ROOT_PAGE
include_patterns = [f"{page}.*" for page in pages()]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Anchors of headings are those that a forge makes.
myst_heading_anchors = 6

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
# Unions are shown by their names, each of which has an entry of its own.
autodoc_type_aliases = {
    "Frame": "gateway.frames.codec.Frame",
    "Effect": "gateway.core.effects.Effect",
    "Durable": "gateway.core.effects.Durable",
    "JournalWork": "gateway.core.effects.JournalWork",
    "Output": "gateway.core.events.Output",
    "Change": "gateway.core.state_records.Change",
    "ClientId": "gateway.core.state_records.ClientId",
}
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "exclude-members": "KIND,LAYOUT,TAIL",
}
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["static"]
html_js_files = ["search.js"]
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_show_sphinx = False
html_show_copyright = False
