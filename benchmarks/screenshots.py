"""Pictures of the page for the docs, taken in a headless Chromium of a server of its own.

python benchmarks/screenshots.py [STORE] [--out docs/screenshots] [--question QUESTION]

STORE is the pack that `packwise demo` builds, unless another is named. Chromium is the one that
is installed (Debian: `apt-get install chromium`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

QUESTION = "What is a context manager?"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LARGEST = 200_000
DESKTOP = (1280, 760)
MARGIN = 24
PATIENCE = 180_000
TALLEST = 900
SMALL = (1180, 640)
PHONE = (390, 800)


def main() -> int:
    """Take the pictures; 1 when one could not be taken or is too large for the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?", default="demo-pack")
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--question", default=QUESTION)
    chosen = parser.parse_args()
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        sys.stderr.write("no Chromium on this machine: apt-get install chromium\n")
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)

    from playwright.sync_api import sync_playwright

    with serving(chosen.store) as url, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        take_all(browser, url, chosen.question, chosen.out)
        browser.close()
    too_large = 0
    for file in sorted(chosen.out.glob("*.png")):
        size = file.stat().st_size
        too_large += size > LARGEST
        sys.stdout.write(f"{file}  {size / 1000:.0f} kB\n")
    return int(too_large > 0)


@contextmanager
def serving(store: str) -> Generator[str]:
    """A server over the store, for as long as it is needed: its address."""
    command = [sys.executable, "-m", "packwise", "serve", store, "--port", "0", "--no-keys"]
    command += ["--workers", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://[\d.]+:(\d+)", process.stdout.readline())
            if found is None:
                raise SystemExit(f"{store} cannot be served: packwise serve {store} says why")
            yield f"http://localhost:{found[1]}"
        finally:
            process.terminate()


def take_all(browser: Browser, url: str, question: str, out: Path) -> None:
    """Every picture of the docs."""
    page = open_page(browser, DESKTOP, "light")
    ask(page, url, question)
    page.locator("button.cite").first.click()
    page.wait_for_selector("dialog mark.quoted")
    page.screenshot(path=out / "source.png")
    page.keyboard.press("Escape")
    open_how_found(page)
    page.fill("#budget-number", "300")
    page.wait_for_selector(".budget-status:has-text('of 300 tokens')")
    take(page, "#budget", out / "budget.png")
    page.goto(f"{url}/#/compare")
    page.fill("#compare-question", question)
    page.select_option("#side-B-mode", "vector")
    page.click("#compare button[type=submit]")
    page.wait_for_selector(".ranked")
    take(page, "#compare", out / "compare.png")
    page.close()

    page = open_page(browser, DESKTOP, "dark")
    ask(page, url, question)
    open_how_found(page)
    take(page, "#candidates", out / "candidates-dark.png")
    page.goto(f"{url}/#/documents")
    page.wait_for_selector(".articles a")
    page.locator(".articles a").first.click()
    page.wait_for_selector("article .graph svg")
    page.screenshot(path=out / "document-dark.png")
    page.close()

    page = open_page(browser, PHONE, "light")
    ask(page, url, question)
    page.screenshot(path=out / "phone.png")
    page.close()

    with tempfile.TemporaryDirectory() as empty, serving(empty) as start:
        page = open_page(browser, SMALL, "light")
        page.goto(start)
        page.wait_for_selector(".drop")
        page.screenshot(path=out / "start.png")
        page.close()


def open_how_found(page: Page) -> None:
    """Open how the answer was found, and wait until the last part of it is drawn."""
    page.locator(".how > summary").click()
    page.wait_for_selector("#neighbourhood .graph svg")


def take(page: Page, selector: str, file: Path) -> None:
    """One part of the page, with air around it."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    box = page.locator(selector).bounding_box()
    assert box is not None
    clip = {
        "x": box["x"] - MARGIN,
        "y": box["y"] - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": min(box["height"], TALLEST) + 2 * MARGIN,
    }
    page.screenshot(path=file, full_page=True, clip=clip)


def open_page(browser: Browser, size: tuple[int, int], scheme: str) -> Page:
    """An empty page of that size and colour scheme, in which nothing moves."""
    width, height = size
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.set_default_timeout(PATIENCE)
    return page


def ask(page: Page, url: str, question: str) -> None:
    """Ask, and wait until the answer is there."""
    page.goto(f"{url}/")
    page.wait_for_selector("#question:enabled")
    page.fill("#question", question)
    page.keyboard.press("Enter")
    page.wait_for_selector(".how")
    page.evaluate("document.activeElement.blur()")


if __name__ == "__main__":
    sys.exit(main())
