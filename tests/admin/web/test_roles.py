"""Signing in and out in a real browser, and what a viewer sees: everything, and no buttons."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page, expect

from gateway.admin.http.passwords import hash_password
from tests.admin.web.browser import PATIENCE_MS, look, needs_browser, opened
from tests.admin.web.served import served

pytestmark = needs_browser
USERS = "".join(
    f'[[admin_user]]\nname = "{name}"\nrole = "{role}"\n'
    f'password = "{hash_password(f"{name} and tide", log_n=10, p=1)}"\n'
    for name, role in (("anna", "operator"), ("ben", "viewer"))
)


async def sign_in(page: Page, user: str, password: str) -> None:
    await page.get_by_label("User").fill(user)
    await page.get_by_label("Password").fill(password)
    await page.locator("dialog").get_by_role("button", name="Sign in").click()


def test_who_signs_in_sees_the_page_and_a_viewer_no_buttons(tmp_path: Path) -> None:
    expect.set_options(timeout=PATIENCE_MS)

    async def story(url: str) -> None:
        # Wrong passwords and what is asked for before are refused, which browsers complain about.
        async with opened(url, expects_failures=True) as page:
            heading = page.get_by_role("heading", name="Sign in")
            await expect(heading).to_be_visible()
            await expect(page.locator("#gateway")).to_have_text("Tidegate")
            assert await page.locator("main > *").count() == 0
            await sign_in(page, "ben", "wrong")
            await expect(page.get_by_role("alert")).to_contain_text("not the password")
            await sign_in(page, "ben", "ben and tide")
            await expect(heading).to_be_hidden()
            await expect(page.locator("#session")).to_have_text("Sign out ben")
            await expect(page.locator("#up")).to_contain_text("up ")
            cookies = await page.context.cookies()
            (cookie,) = [one for one in cookies if one["name"].startswith("tidegate_")]
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")

            await page.goto(f"{url}#/buffer")
            await expect(page.get_by_text("You may only look.")).to_be_visible()
            await expect(page.get_by_role("button", name="Pause the drain")).to_be_hidden()
            await expect(page.get_by_role("link", name="Export")).to_be_hidden()

            await page.locator("#session").click()
            await expect(page.locator("#session")).to_have_text("Sign in")
            await expect(heading).to_be_visible()
            assert await page.locator("main > *").count() == 0

            await sign_in(page, "anna", "anna and tide")
            await expect(page.locator("#session")).to_have_text("Sign out anna")
            await expect(page.get_by_role("button", name="Pause the drain")).to_be_enabled()
            await page.screenshot(path=tmp_path / "operator.png")

    with served(tmp_path, config=USERS) as here:
        look(story(here.url))
