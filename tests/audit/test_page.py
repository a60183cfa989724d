"""The page in a real Chromium without network: on a desktop, on a phone, in dark mode and in print."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_outputs import coded

from fedveil.audit import audit_all, write_page
from fedveil.data.attribute import Attribute


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outputs = coded(400, 0.05, 0)
    values = tuple(f"value number {k}" for k in range(5))
    long = Attribute("a-rather-long-name-of-an-attribute", np.arange(400) % 5, values)
    audits = audit_all(replace(outputs, secrets={**outputs.secrets, long.name: long}), panel="logistic")
    return write_page(audits, tmp_path_factory.mktemp("page") / "page.html", "vendor.csv", "logistic")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start the Chromium installed on this machine."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.mark.parametrize(
    "how", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}], ids=["desk", "dark", "phone"]
)
def test_it_fits_every_screen_and_requests_nothing(page: Path, chromium: Any, how: dict[str, Any]) -> None:
    context = chromium.new_context(offline=True, **how)
    shown, requests, faults = context.new_page(), [], []
    shown.on("request", lambda request: requests.append(request.url))
    shown.on("console", lambda message: faults.append(message.text))
    shown.goto(page.as_uri())
    assert requests == [page.as_uri()]
    assert faults == []
    assert shown.locator(".verdict").all_inner_texts() == ["CURIOUS", "STANDARD"]
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    ends = "[...document.querySelectorAll('svg rect.fill')].map((r) => r.getBoundingClientRect().right)"
    assert max(shown.evaluate(ends)) <= shown.evaluate("window.innerWidth")
    for selector, least in (("body", 7), (".verdict.curious", 4.5)):
        style = f"getComputedStyle(document.querySelector('{selector}'))"
        assert _contrast(shown.evaluate(f"{style}.color"), shown.evaluate(f"{style}.backgroundColor")) > least
    context.close()


def test_it_prints_on_a_few_sheets(page: Path, chromium: Any) -> None:
    shown = chromium.new_page(color_scheme="dark")
    shown.goto(page.as_uri())
    assert len(re.findall(rb"/Type /Page\b", shown.pdf(format="A4"))) in range(2, 9)
    shown.emulate_media(media="print")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown.close()


def _contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(colour), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
