"""The page in a real Chromium without network: it loads, responds to mouse and keyboard, runs only its own code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic_study import METHODS, Law, SyntheticStudy, many_cells

from fedveil.report import write_report
from fedveil.studies.results import open_study

NASTY = "<script>alert(1)</script>\"'&\u2028</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    synthetic = SyntheticStudy(unfinished=["m3-1-seed1", "m1-2-seed0", "m1-2-seed1"])
    return write_report(open_study(synthetic.write(tmp_path_factory.mktemp("usual") / "study")))


@pytest.fixture
def show(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that loads a page; afterwards there must be no requests, console messages or errors."""
    contexts, requests, faults = [], [], []

    def load(path: Path, width: int = 1100, height: int = 900, **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        page.wait_for_selector("#frontier .main-svg")
        return page

    yield load
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in requests) == len(contexts)
    assert faults == []


def centre(page: Any, trace: str, point: int = 0) -> tuple[float, float]:
    """Return the screen coordinates of a mark on the frontier."""
    page.locator("#frontier").scroll_into_view_if_needed()
    coordinates = page.evaluate(
        """([name, k]) => { const gd = document.getElementById("frontier"), t = gd.data.find((t) => t.name === name);
        const box = gd.getBoundingClientRect(), l = gd._fullLayout;
        return [box.left + l._size.l + l.xaxis.d2p(t.x[k]), box.top + l._size.t + l.yaxis.d2p(t.y[k])]; }""",
        [trace, point],
    )
    return coordinates[0], coordinates[1]


def selected(page: Any) -> dict[str, str]:
    """Return what each part of the page shows as selected."""
    chosen = page.locator("#settings tr[aria-current=true] bdi").first.inner_text()
    leads = [page.locator(f"#{part}-lead strong").inner_text() for part in ("attackers", "maps", "losses", "groups")]
    proved = page.locator("#proved h3 bdi").first.inner_text()
    bar = page.locator("#setting option:checked").inner_text()
    return {"table": chosen, "bar": bar, "proved": proved, **dict(enumerate(leads))}


def test_it_loads_and_shows_the_answer_first(show, usual):
    page = show(usual)
    assert page.locator("main section h2").first.inner_text() == "The answer"
    assert (
        page.locator("#words").inner_text().startswith("This study is partial: 3 of 18 planned cells are not finished")
    )
    assert "PARTIAL" in page.locator("main .partial").inner_text()
    assert "Missing, and so not drawn: drop-columns (9 columns)." in page.locator("#frontier-caption").inner_text()
    assert page.locator("#command").inner_text() == "fedveil run studies/adult-small.yaml"
    row = page.locator("#settings tbody tr", has_text="drop-columns (9 columns)")
    assert "2 of 2 cells not finished" in row.inner_text()
    assert row.locator("td").nth(1).inner_text() == "missing"


def test_hover_shows_the_cell(show, usual):
    page = show(usual)
    page.mouse.move(*centre(page, "drop-columns", 1))
    label = page.locator("#frontier .hoverlayer .hovertext")
    label.wait_for()
    assert "drop-columns (5 columns)" in label.text_content()
    assert "seed 0, 1" in label.text_content()


def test_a_click_selects_everywhere(show, usual):
    page = show(usual)
    page.mouse.click(*centre(page, "certified-channel", 2))
    page.wait_for_selector("#settings tr[aria-current=true]:has-text('sigma 4')")
    assert set(selected(page).values()) == {"certified-channel (sigma 4)"}
    assert "CERTIFIED ≤ 0.599" in page.locator("#selected-figures").inner_text()
    assert page.locator("#proved .certificate").count() == 3
    assert "CERTIFIED balanced accuracy ≤ 0.599" in page.locator("#proved .certificate").first.inner_text()
    styles = [page.locator(f"#proved .{kind}").first.evaluate("e => getComputedStyle(e).borderTopStyle")
              for kind in ("certificate", "estimate")]  # fmt: skip
    assert styles == ["solid", "dashed"]
    assert "that takes three seeds, and this setting has figures of 2" in page.locator("#proved").inner_text()
    page.locator("#settings tbody tr", has_text="none").first.click()
    assert set(selected(page).values()) == {"none"}
    assert "Nothing is proved" in page.locator("#proved").inner_text()


def test_the_table_sorts_and_what_is_missing_stays_last(show, usual):
    page = show(usual)
    heading = page.locator("#settings thead button", has_text="Leakage")

    def column() -> list[str]:
        return [text.split(" ")[0] for text in page.locator("#settings tbody tr td:nth-child(2)").all_inner_texts()]

    heading.click()
    up = column()
    assert page.locator("#settings th[aria-sort=ascending]").count() == 1
    heading.click()
    down = column()
    assert up[-1] == down[-1] == "missing"
    assert up[:-1] == sorted(up[:-1])
    assert down[:-1] == sorted(down[:-1], reverse=True)
    page.locator("#settings thead button", has_text="Setting").click()
    assert page.locator("#settings tbody tr").first.inner_text().startswith("none")


def test_tasks_and_attributes_are_switched(show, usual):
    page = show(usual)
    before = page.locator("#settings tbody tr td:nth-child(2)").first.inner_text()
    page.select_option("#attribute", label="race")
    page.select_option("#task", label="hours")
    assert "an attacker reads race" in page.locator("#words").inner_text()
    assert page.locator("#settings tbody tr td:nth-child(2)").first.inner_text() != before
    page.locator("details:has(#groups-table) summary").click()
    assert page.locator("#groups-table tbody tr").count() == 3
    assert "hours" in page.locator("#frontier .ytitle").text_content()


def test_the_cotrained_attacker_is_marked(show, usual):
    page = show(usual)
    page.select_option("#setting", label="adversarial (strength 0.5)")
    page.locator("details:has(#attackers-table) summary").click()
    rows = page.locator("#attackers-table tbody tr").all_inner_texts()
    assert len(rows) == 5
    assert "co-trained with the defence" in rows[-1]
    symbols = page.evaluate("document.getElementById('attackers').data[0].marker.symbol")
    assert symbols == ["circle"] * 4 + ["diamond"]


def test_every_chart_has_its_table(show, usual):
    page = show(usual)
    for chart in ("attackers", "maps", "losses", "groups"):
        page.locator(f"details:has(#{chart}-table) summary").click()
        assert page.locator(f"#{chart}-table tbody tr").count() > 0
    for image in page.locator("[role=img]").all():
        assert image.get_attribute("aria-label")


def test_themes(show, usual):
    page = show(usual, color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(22, 24, 28)"
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: light"
    assert page.evaluate(paper) == "rgb(255, 253, 249)"
    page.click("#theme")
    assert page.evaluate(paper) == "rgb(22, 24, 28)"


CONTRAST = """() => {
  const light = (c) => {
    const f = c.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return parse(getComputedStyle(document.body).backgroundColor); };
  const poor = [];
  for (const e of document.querySelectorAll("body *:not(script):not(style):not(svg *)")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(e.tagName + " " + e.className + " " + e.textContent.slice(0, 30));
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(show, usual, scheme):
    assert show(usual, color_scheme=scheme).evaluate(CONTRAST) == []


def test_a_phone_needs_no_sideways_scrolling(show, usual):
    page = show(usual, width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for setting in ("certified-channel (sigma 4)", "adversarial (strength 0.5)"):
        page.select_option("#setting", label=setting)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    widths = page.evaluate(
        "[...document.querySelectorAll('.chart .main-svg')].map((s) => s.getBoundingClientRect().right)"
    )
    assert max(widths) <= 360


def test_the_keyboard_reaches_everything(show, usual):
    page = show(usual)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#frontier-keys")
    page.keyboard.press("ArrowLeft")
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    assert set(selected(page).values()) == {"certified-channel (sigma 4)"}
    page.keyboard.press("ArrowRight")
    assert set(selected(page).values()) == {"drop-columns (5 columns)"}
    pick = page.locator("#settings button.pick").first
    pick.focus()
    page.keyboard.press("Enter")
    assert set(selected(page).values()) == {"none"}
    page.locator("#settings thead button").nth(1).focus()
    page.keyboard.press("Space")
    assert page.locator("#settings th[aria-sort=ascending]").count() == 1
    names = page.evaluate(
        """[...document.querySelectorAll("button, select, summary, [tabindex='0']")].filter((e) =>
        !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)).map((e) => e.outerHTML)"""
    )
    assert names == []


def test_untrusted_strings_are_shown_and_not_run(show, tmp_path):
    synthetic = SyntheticStudy(
        methods={"none": METHODS["none"], NASTY: METHODS["adversarial"], "drop-columns": METHODS["drop-columns"]},
        attributes={NASTY: (NASTY, "\u202eevil", "<b>x</b>")},
        tasks=("%{x} <i>task</i> $x$",),
        attackers=(NASTY,),
        name=NASTY,
        command=NASTY,
    )
    page = show(write_report(open_study(synthetic.write(tmp_path / "study"))))
    assert page.locator("h1").inner_text().startswith("<script>alert(1)</script>\"'&")
    assert page.locator("#attribute option").inner_text().startswith("<script>alert(1)</script>")
    page.select_option("#setting", index=1)
    assert page.locator("#attackers-lead").inner_text().startswith("<script>alert(1)</script>")
    page.mouse.move(*centre(page, "none"))
    page.locator("#frontier .hoverlayer .hovertext").wait_for()
    assert "<i>task</i>" in page.locator("#frontier .ytitle").text_content()
    assert page.locator("#command").inner_text().startswith("<script>alert(1)</script>")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3


def test_paper_is_white_and_tables_are_open(show, usual):
    page = show(usual, color_scheme="dark")
    page.emulate_media(media="print")
    page.wait_for_selector("details.behind[open] #attackers-table")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.getElementById('frontier').layout.font.color") == "#000"
    assert page.pdf().startswith(b"%PDF")
    page.emulate_media(media="screen")
    page.wait_for_selector("details.behind:not([open]) #attackers-table", state="attached")


def test_a_study_without_figures_still_loads(chromium, tmp_path):
    synthetic = SyntheticStudy(unfinished=[cell["id"] for cell in SyntheticStudy().planned()])
    path = write_report(open_study(synthetic.write(tmp_path / "study")))
    page = chromium.new_page()
    faults = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert "No setting has figures" in page.locator("#frontier").inner_text()
    assert page.locator("#settings tbody tr").count() == 9
    assert faults == []
    page.close()


@pytest.mark.slow  # twenty seconds; the page of as many cells is built and measured in test_page.py
def test_500_cells_respond_at_once(show, tmp_path):
    page = show(write_report(open_study(many_cells().write(tmp_path / "study"))))
    assert page.locator("#settings tbody tr").count() >= 498
    took = page.evaluate(
        """() => { const start = performance.now(); select(300); sortBy(1); return performance.now() - start; }"""
    )
    assert took < 3000
    page.select_option("#setting", index=301)
    assert "No map was made of this setting" in page.locator("#map-released").inner_text()


def test_a_contradicted_certificate_is_marked_as_such(show, tmp_path):
    channel = Law((4.0,), (0.9,), (0.95,), certified=True)
    folder = SyntheticStudy(methods={**METHODS, "certified-channel": channel}).write(tmp_path / "study")
    page = show(write_report(open_study(folder)))
    page.select_option("#setting", label="certified-channel (sigma 4)")
    assert "CONTRADICTED by boosting" in page.locator("#proved .certificate .contradiction").first.inner_text()
    assert "contradicted" in page.locator("#settings .badge").first.inner_text()
    assert "CONTRADICTED" in page.locator("#selected-figures").inner_text()
    assert page.locator("#words .about-contradiction").inner_text().startswith("CONTRADICTION: ")
