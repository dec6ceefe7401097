"""What holds for every view, on phones and wide screens, light and dark, in both languages.

axe-core finds no serious violation, the page is not wider than the window, logs nothing and asks no other
host, and every control can be reached with the keyboard.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from support.browser import Visit

pytest_plugins = ["support.browser_fixtures"]

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ["draw", "tweak", "overlap", "votes", "parts", "toy", "clusters", "attack", "compare", "run"]
# With `rules` only these are checked. Hundreds of dots in a chart have no text, but axe-core looks at each.
SERIOUS = """async (rules) => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await axe.run({ exclude: [".dots"] }, options);
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}"""
# Marks the control that has the focus; tells whether it is visible, or null if the page has lost the focus.
REACHED = """() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  element.setAttribute("data-reached", "");
  const { width, height } = element.getBoundingClientRect();
  return width > 0 && height > 0;
}"""
CONTROLS = ":is(a, button, input:not([type=radio], [type=file]), summary, [tabindex]):visible:enabled"


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        assert not os.environ.get("CI"), "axe-core is missing: npm ci"
        pytest.skip("axe-core is missing: npm ci")
    return AXE.read_text()


# What axe-core looks at is the same in both languages, and it takes longer than all else.
@pytest.mark.parametrize("locale", ["en-US", pytest.param("zh-CN", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_on_every_screen(browser: Any, lab: str, axe: str, name: str, locale: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce", locale=locale)
    visit = Visit(page, lab, "access")
    page.goto(lab)
    if not page.locator(f"#tab-{name}").count():
        page.close()
        pytest.skip(f"there is no view {name}")
    visit.open(name)
    page.evaluate(axe)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.locator(f"html[data-theme={theme}]").wait_for()
            # Of all rules, only contrast depends on the theme.
            assert page.evaluate(SERIOUS, None if theme == "light" else ["color-contrast"]) == [], (
                width,
                theme,
            )
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (width, theme)
    visit.wait_idle()
    assert visit.errors == []
    page.close()


def test_the_menu_and_the_tour(browser: Any, lab: str, axe: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    visit = Visit(page, lab, "tour")
    visit.open("draw").get_by_role("button", name="Start the tour").click()
    page.locator(".tour[aria-busy=false]").wait_for()
    page.locator("#save summary").click()
    page.get_by_role("button", name="Picture").wait_for()
    page.evaluate(axe)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(SERIOUS, None) == [], theme
    page.close()


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_by_keyboard(browser: Any, lab: str, name: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    visit = Visit(page, lab, "keys")
    page.goto(lab)
    if not page.locator(f"#tab-{name}").count():
        page.close()
        pytest.skip(f"there is no view {name}")
    view = visit.open(name)
    controls = view.locator(CONTROLS)
    page.locator("#stage").focus()
    for _ in range(controls.count() + 30):
        page.keyboard.press("Tab")
        visible = page.evaluate(REACHED)
        assert visible is not False, "the focus is always on something visible"
        if visible is None or page.locator(".foot a[data-reached]").count():
            break
    else:
        pytest.fail("the focus does not leave the view")
    missed = controls.and_(view.locator(":not([data-reached])"))
    assert missed.evaluate_all("all => all.map((control) => control.outerHTML.slice(0, 120))") == []
    assert visit.errors == []
    page.close()
