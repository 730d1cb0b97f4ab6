"""What can be computed of a page's accessibility, without anybody else's script.

Names are those that chromium hands to screen readers. Contrast is that of WCAG 2.2 (1.4.3): 4.5 to
1, or 3 to 1 for large text. Sizes of targets are those of 2.5.8: 24 by 24 pixels, links within text
excepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import Page

CONTROLS = frozenset(
    {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "meter", "img"}
    | {"navigation", "dialog", "group", "option"}
)

SCRIPT = Path(__file__).with_name("access.js").read_text()


async def ask(page: Page, name: str) -> Any:
    """One of the questions of access.js."""
    return await page.evaluate(f"{SCRIPT.rstrip()}.{name}()")


async def nameless(page: Page) -> list[str]:
    """Controls, pictures and tables that a screen reader could only call by their kind."""
    session = await page.context.new_cdp_session(page)
    tree: dict[str, Any] = await session.send("Accessibility.getFullAXTree")
    return [
        f"{role} {node.get('backendDOMNodeId')}"
        for node in tree["nodes"]
        if not node.get("ignored")
        and (role := node.get("role", {}).get("value")) in CONTROLS
        and not node.get("name", {}).get("value", "").strip()
    ]
