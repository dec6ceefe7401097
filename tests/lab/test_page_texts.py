"""English and Chinese: every text has a translation, the page shows it, and the switch keeps the state."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import Visit
from support.lab_statements import FACTS, OTHERS
from torchcaps import lab as lab_package
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.data.worlds.toys import CATEGORIES

pytest_plugins = ["support.browser_fixtures"]

STATIC = Path(lab_package.__file__).parent / "static"
STRING = r'"((?:[^"\\]|\\.)*)"'
# Names that are the same in both languages.
NAMES = "|".join(
    [
        r"torchcaps|English|CNN|EM|Heinsen|Sabour|Frosst|Hinton|softmax|sigmoid|logits|FGSM|PGD|(?:Multi)?MNIST|API|PNG|CSV|JSON|Ctrl|Delete",
        r"\w+(?:[_-]\w+)+|avx\w*|dev\d*",
    ]
)

# What the server names and the page translates: parts, wholes, toys, measures of agreement, images.
SERVER_NAMES = {
    *(part.name for world in (SHAPES, FACES) for part in world.parts),
    *(whole.name for world in (SHAPES, FACES) for whole in (*world.wholes, *world.groups)),
    *CATEGORIES,
    *(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in CATEGORIES),
    *("scalar product", "cosine", "log of density × activation", "Overlapping"),
    *("test digits of MNIST", "two digits of MNIST", "test scenes of shapes", "test scenes of faces"),
}


def script_strings(before: str = "") -> set[str]:
    """All strings in the scripts that follow `before`."""
    scripts = [path for path in (STATIC / "js").rglob("*.js") if path.parent.name != "zh"]
    code = [re.sub(r"(?m)^\s*//.*$", "", path.read_text("utf-8")) for path in scripts]
    return {text for script in code for text in re.findall(rf"{before}{STRING}", script)}


def page_texts() -> set[str]:
    """All texts of index.html that are marked for translation; an element inside is written *so*."""
    page = (STATIC / "index.html").read_text("utf-8")
    marked = re.findall(r"<(\w+)[^>]*\sdata-t>(.*?)</\1>", page, re.DOTALL)
    assert len(marked) == page.count(" data-t>"), "each marked element was found"
    texts = {re.sub(r"\s+", " ", re.sub(r"</?\w+>", "*", text)).strip() for _, text in marked}
    return texts | set(re.findall(rf"aria-label={STRING} data-t-label", page))


def chinese_texts() -> dict[str, str]:
    pairs = [
        pair
        for path in sorted((STATIC / "js" / "zh").glob("*.js"))
        for pair in re.findall(rf"^  {STRING}:\s*{STRING},$", path.read_text("utf-8"), re.MULTILINE)
    ]
    texts = dict(pairs)
    assert [pair for pair in pairs if texts[pair[0]] != pair[1]] == [], "one translation for each text"
    return texts


def test_every_text_has_a_chinese_one_and_none_is_unused() -> None:
    used, translated = script_strings(r"\bt\(") | page_texts(), set(chinese_texts())
    assert len(used) > 100
    assert used - translated == set(), "not translated"
    # Some texts are in tables, t(HINTS[name]), or are names that the server sends.
    named = script_strings() | page_texts() | SERVER_NAMES
    assert translated - named == set(), "translated, but not used"


def test_translations_have_the_same_values_and_chinese_punctuation() -> None:
    for english, chinese in chinese_texts().items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", chinese)), english
        assert english.count("*") == chinese.count("*"), english
        assert not re.search(r"[\u4e00-\u9fff][,;:?!(]|[,;:?!)][\u4e00-\u9fff]", chinese), chinese


# What the page shows or reads out: texts of elements, labels, and the text of values.
SHOWN = """view => [...view.querySelectorAll("*")].filter((one) => one.checkVisibility()).flatMap((it) => [
  ...[...it.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent),
  ...["aria-label", "aria-valuetext", "alt", "title"].map((name) => it.getAttribute(name) ?? ""),
]).map((text) => text.trim()).filter(Boolean)"""


@pytest.fixture
def chinese(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce", locale="zh-CN")
    yield Visit(page, lab, "chinese")
    page.close()


def test_translated_views_have_no_english_word_left(chinese: Visit) -> None:
    chinese.page.goto(chinese.url)
    views = chinese.page.get_by_role("tab").evaluate_all("tabs => tabs.map(tab => tab.hash.slice(1))")
    for name in views:
        view = chinese.open(name)
        texts = view.evaluate(SHOWN) + chinese.page.locator(".top, .foot").evaluate_all(
            f"parts => parts.flatMap({SHOWN})"
        )
        left = [
            text
            for text in texts
            if re.search(r"[A-Za-z]{2,}", re.sub(rf"(?<![A-Za-z])(?:{NAMES})(?![A-Za-z])", "", text))
        ]
        assert left == [], name
        assert re.search(r"[\u4e00-\u9fff]", chinese.page.title())
    assert chinese.errors == []


def test_the_language_switch_keeps_view_settings_and_drawing(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce", locale="fr-FR")
    visit = Visit(page, lab, "switch")
    view = visit.open("draw")
    assert page.locator("html").get_attribute("lang") == "en", "the first visit, with a language there is not"
    visit.response_to("draw", view.get_by_role("button", name="Example of 7").click)
    lengths = view.locator(".bars .value").all_inner_texts()
    overlap = visit.open("overlap")
    visit.response_to("overlap", overlap.get_by_role("button", name="New pair").click)
    address, answer = page.url, overlap.locator(".bars .value").all_inner_texts()
    switch = page.get_by_role("button", name="中文")
    assert switch.inner_text().startswith("ZH"), "there may be no font for the Chinese name"
    assert switch.locator("span").get_attribute("lang") == "zh-CN"
    switch.click()
    page.get_by_role("heading", name="分开两个数字").wait_for()
    visit.wait_idle()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert page.url == address
    assert overlap.locator(".bars .value").all_inner_texts() == answer
    page.get_by_role("tab", name="手写").click()
    visit.wait_idle()
    assert view.locator(".bars .value").all_inner_texts() == lengths
    assert page.title() == "手写 · torchcaps 实验室"
    page.get_by_role("button", name="English").click()
    page.get_by_role("heading", name="Draw a digit").wait_for()
    assert visit.errors == []
    page.close()


def test_missing_weights_are_reported_in_chinese(browser: Any) -> None:
    from support.browser import serve
    from torchcaps.lab.model_store import ModelStore

    with serve(ModelStore({})) as url:
        page = browser.new_page(locale="zh-CN")
        notice = Visit(page, url, "missing").open("draw").locator(".notice")
        assert "没有安装在 mnist 上训练的 capsnet_small 的权重" in notice.inner_text()
        page.close()


def test_chinese_numbers(chinese: Visit) -> None:
    """Counts in units of ten thousand, as Chinese counts."""
    assert "万个参数" in chinese.open("draw").locator(".network").inner_text()


def test_every_sentence_that_states_a_fact_has_a_test() -> None:
    """A new sentence must be listed: with the test that says that it holds, or as a text that states none."""
    texts = {
        text
        for text in (script_strings() & set(chinese_texts())) | page_texts()
        if text.endswith(".") or len(text.split()) >= 6
    }
    assert len(texts) > 100
    unknown = {text for text in texts if not text.startswith((*FACTS, *OTHERS))}
    assert unknown == set()
    unused = {start for start in (*FACTS, *OTHERS) if not any(text.startswith(start) for text in texts)}
    assert unused == set(), "listed, but not on the page"
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    missing = {name for name in FACTS.values() if not re.search(rf"^def {name}\(", tests, re.MULTILINE)}
    assert missing == set()
