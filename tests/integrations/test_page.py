"""The page in a browser: type, see the tree, click, read the explanation, switch the model."""

import pytest

from tests.browser import BINARY, DRIVER, Browser
from tests.integrations.serving import Server

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(not (BINARY and DRIVER), reason="needs chromium and chromedriver")


@pytest.fixture(scope="module")
def server():
    made = Server("en", "en-ner", "sl-parse")
    yield made
    made.close()


@pytest.fixture(scope="module", params=[1300, 400])
def window(request):
    made = Browser(request.param, 900)
    yield made
    made.close()


@pytest.fixture
def browser(window, server):
    """The page, just opened; at the end nothing was told on the console, and nobody else asked."""
    window.open(server.address)
    window.wait("document.querySelectorAll('.sentence').length === 2")
    yield window
    assert window.console() == []
    asked = {url.startswith((server.address, "data:", "blob:")) for url in window.requests()}
    assert asked == {True}


def write(browser, text, sentences=1):
    """Type a text and wait for its answer, which comes without a click."""
    browser.run("document.getElementById('text').value = ''")
    browser.type("#text", text)
    browser.wait(f"document.querySelectorAll('.sentence').length === {sentences}")
    first = text.split()[0]
    browser.wait(f"document.querySelector('.sentence .text').textContent.startsWith({first!r})")


def test_type_click_read_and_compare(browser):
    write(browser, "Yesterday Mary Smith moved to Paris.")
    words = browser.run(
        "return [...document.querySelectorAll('.drawing .words text')].map(x => x.textContent)"
    )
    assert words == ["Yesterday", "Mary", "Smith", "moved", "to", "Paris", "."]
    assert "Paris" in browser.run(
        "return [...document.querySelectorAll('mark')].map(x => x.textContent).join()"
    )
    assert "7 words" in browser.text("#status")
    browser.click(".text [data-word='4']")
    browser.wait("document.querySelector('#why h2')?.textContent.startsWith('moved')")
    assert (
        browser.run("return document.querySelector('.drawing .words .on').textContent") == "moved"
    )
    of = browser.run(
        "return [...document.querySelectorAll('.chips button')].map(x => x.dataset.of)"
    )
    assert {"upos", "xpos", "head", "label", "ner"} <= set(of)
    browser.click(".chips [data-of='upos']")
    browser.wait("document.querySelector('.chips [aria-selected=true]').dataset.of === 'upos'")
    sums = browser.run(
        "return [...document.querySelectorAll('.features .weight')].map(x => "
        "Number(x.textContent.replace('\u2212', '-')))"
    )
    assert sum(sums[:-1]) == pytest.approx(sums[-1], abs=0.02)
    assert (
        browser.run("return document.querySelector('.choice.chosen .name').textContent") == "VERB"
    )
    other = browser.run("return document.querySelectorAll('.choice:not(.chosen)')[2].dataset.value")
    browser.click(f".choice[data-value='{other}']")
    browser.wait(f"document.querySelector('.choice.other')?.dataset.value === {other!r}")
    browser.run("window.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    browser.wait("!document.querySelector('#why h2')")


def test_arcs_labels_tags_and_the_table(browser):
    write(browser, "Mary moved to Paris.")

    def clicked(selector):
        click = "dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        browser.run(f"document.querySelector(arguments[0]).{click}", selector)
        browser.wait("document.querySelector('.chips [aria-selected=true]')")
        chosen = browser.run(
            "return document.querySelector('.chips [aria-selected=true]').dataset.of"
        )
        browser.run("clearWhy()")
        return chosen

    assert clicked(".arcs g[data-word='4'] path") == "head"
    assert clicked(".arcs g[data-word='4'] text") == "label"
    assert clicked(".drawing .tags [data-word='4']") == "upos"
    assert clicked("mark small") == "ner"
    browser.click(".tabs button:nth-child(2)")
    rows = browser.run(
        "return [...document.querySelectorAll('tbody tr')].map(r => r.cells[1].textContent)"
    )
    assert rows == ["Mary", "moved", "to", "Paris", "."]
    assert clicked("tr[data-word='4'] [data-of='xpos']") == "xpos"
    browser.click(".tabs button:nth-child(3)")
    assert browser.run("return document.querySelector('pre').textContent").startswith("1\tMary\t")


def test_models_and_errors(browser):
    write(browser, "Mary moved to Paris.")
    browser.run(
        "const m = document.getElementById('model'); m.value = 'en-ner';"
        "m.dispatchEvent(new Event('change'))"
    )
    browser.wait("document.querySelector('table')")  # no tree any more
    assert browser.run("return document.querySelectorAll('.drawing .arcs').length") == 0
    browser.click(".text [data-word='4']")
    browser.wait("document.querySelector('.chips [data-of=ner]')")
    browser.run(
        "const m = document.getElementById('model'); m.value = 'sl-parse';"
        "m.dispatchEvent(new Event('change'))"
    )
    browser.wait("!document.getElementById('problem').hidden")
    assert "the parser reads tags" in browser.text("#problem")
    browser.console()  # the browser tells of the answer 400, too


# The width of the picture that would be copied, and how many of its pixels are dark.
DARK_PIXELS = """
standalone(document.querySelector(".view svg")).then(source => {
  const image = new Image(), canvas = document.createElement("canvas");
  image.onload = () => {
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
    let dark = 0;
    for (let k = 0; k < data.length; k += 4) dark += data[k] < 128;
    done([image.width, dark]);
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(source);
});
"""


def test_a_picture_and_conllu_can_be_copied(browser):
    write(browser, "Mary moved to Paris.")
    permissions = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.devtools("Browser.grantPermissions", permissions)
    browser.click(".copy")
    browser.wait("['Copied', 'Saved'].includes(document.querySelector('.copy').textContent)")
    shown = browser.later(DARK_PIXELS)
    assert shown[0] > 200
    assert shown[1] > 300  # dark pixels: it has words and arcs
    browser.click("#copy-all")
    browser.wait("document.getElementById('copy-all').textContent === 'Copied'")
    copied = browser.later("navigator.clipboard.readText().then(done, e => done(String(e)))")
    assert copied.startswith("1\tMary\t")


def test_nothing_is_wider_than_the_page(browser):
    write(browser, "Mary moved to Paris.")
    wide = "document.documentElement.scrollWidth <= innerWidth"
    browser.wait(wide)
    browser.click(".text [data-word='4']")
    browser.wait("document.querySelector('.features')")
    browser.wait(wide)
    small = browser.run(
        "return [...document.querySelectorAll('button')].filter(b => b.offsetParent && "
        "b.getBoundingClientRect().height < 22).map(b => b.textContent)"
    )
    assert small == []
