"""The page: what is in it, and what a real browser makes of it."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from buildkit.governor.page import render_page
from tests.governor.browser import Browser
from tests.governor.builds import HOSTILE, a_build, a_record, a_report
from tests.machine import BROWSER, needs_browser

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Counts elements and classes, and collects text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "class":
                self.classes.update((value or "").split())

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


@pytest.fixture(scope="module")
def build():
    return a_build(400, cpus=16, cap_gib=48)


def test_a_bar_for_each_attempt_and_the_killed_ones_look_otherwise(build):
    page = Page(render_page(build))
    assert page.classes["bar"] == len(build.attempts)
    assert page.classes["killed"] >= len(build.killed) > 0
    assert page.classes["cap"] == 1
    assert page.open == []


def test_the_figures_are_text(build):
    page = Page(render_page(build))
    text = " ".join(page.text.split())
    assert "flash-attn 2.8.3.post2 for sm120" in text
    assert f"{build.ratio:.2f} times" in text
    assert "while calls shared the machine" in text
    assert build.expensive(10)[9].name in text


def test_nothing_is_fetched_and_no_handler_stands_in_an_attribute(build):
    page = Page(render_page(build))
    for tag, name, value in page.attributes:
        assert name not in {"src", "action", "data"}
        assert not name.startswith("on"), (tag, name)
        if name in {"href", "xlink:href"}:
            assert value == "data:,"
    assert "@import" not in render_page(build)
    assert re.findall(r"url\((.*?)\)", render_page(build)) == ["#hatch"]


@pytest.mark.parametrize("name", [HOSTILE, "<" * 9000, "a.cu\0\ud800", "'\"><svg onload=1>.cu"])
def test_a_hostile_name_is_text(name):
    plain = Page(render_page(a_report(a_record("a.cu", wall_seconds=9e3))))
    text = render_page(a_report(a_record(name, wall_seconds=9e3)))
    assert Page(text).tags == plain.tags
    assert len(text) < 40_000
    text.encode()


def test_six_thousand_units_stay_below_five_megabytes():
    build = a_build(6000, cpus=64, cap_gib=256)
    text = render_page(build)
    assert len(text.encode()) < 5_000_000
    assert Page(text).classes["bar"] == len(build.attempts)


@pytest.mark.parametrize(
    "records",
    [
        [a_record(wall_seconds=0.0, peak_bytes=0, memory=())],
        [a_record(status=1)],
        [a_record(wall_seconds=90_000.0), a_record("b.cu", peak_bytes=1 << 45)],
    ],
)
def test_the_ends_of_the_scales(records):
    page = Page(render_page(a_report(*records)))
    assert page.classes["bar"] == len(records)
    assert not re.search(r"\b(nan|inf)\b", page.text)


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    return Browser(BROWSER, tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def page_file(build, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render_page(build))
    return file


LIGHT = {
    "ground": (0xFF, 0xFF, 0xFF),
    "ink": (0x1B, 0x1F, 0x24),
    "bar": (0xA5, 0xCA, 0xF0),
    "memory": (0x82, 0x50, 0xDF),
    "cap": (0xCF, 0x22, 0x2E),
}
DARK = {
    "ground": (0x0D, 0x11, 0x17),
    "ink": (0xE6, 0xED, 0xF3),
    "bar": (0x26, 0x4D, 0x7A),
    "memory": (0xB3, 0x92, 0xF0),
    "cap": (0xFF, 0x7B, 0x72),
}


@pytest.mark.browser
@needs_browser
def test_the_browser_draws_every_bar_and_has_nothing_to_complain_of(build, browser, page_file):
    dom, console = browser.dom(page_file)
    assert console == []
    assert len(re.findall(r'<rect class="bar ', dom)) == len(build.attempts)
    assert "<title>flash-attn 2.8.3.post2 for sm120: report of a build</title>" in dom
    assert dom.count("<script") == 1
    assert "<img" not in dom


@pytest.mark.browser
@needs_browser
def test_the_browser_would_have_told(browser, tmp_path):
    """The control: a script that the page's policy forbids is heard of, and does not run."""
    file = tmp_path / "bad.html"
    text = render_page(a_report(a_record())).replace("<main>", "<main><script>evil()</script>")
    file.write_text(text)
    _, console = browser.dom(file)
    assert any("Content Security Policy" in line for line in console)


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_picture_shows_text_bars_memory_and_cap(browser, page_file, tmp_path, colours):
    rows = browser.screenshot(
        page_file, tmp_path / "page.png", size=(1280, 700), is_dark=colours is DARK
    )
    assert (len(rows[0]), len(rows)) == (1280, 700)
    assert rows[0][0] == colours["ground"]
    title = Counter(pixel for row in rows[:80] for pixel in row)
    assert title[colours["ink"]] > 300
    chart = Counter(pixel for row in rows[240:] for pixel in row)
    for part in ("bar", "memory", "cap"):
        assert chart[colours[part]] > 200, part
    assert chart[colours["ground"]] < 0.9 * chart.total()
