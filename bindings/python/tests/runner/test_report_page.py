# SPDX-License-Identifier: Apache-2.0
"""The page of horovodrun report in a real browser, on a screen, on a small one, and on paper."""

import html
import json
import re
import shutil
import subprocess

import pytest
from job_records import MS, MadeJob, ring_links

from horovod.runner.report.analysis import analyse
from horovod.runner.report.page import page
from horovod.runner.report.palette import PARTS

OKABE_ITO = {"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"}
LIMIT = 120
# Runs in a copy of the page and leaves in it what a person would see.
LOOK = """<pre id="seen"></pre><script>
const box = e => e.getBoundingClientRect();
const all = s => [...document.querySelectorAll(s)];
document.getElementById("seen").textContent = JSON.stringify({
  width: innerWidth, content: document.documentElement.scrollWidth,
  charts: all("section svg").map(e => [box(e).width, box(e).height]),
  bars: all("section svg rect").filter(e => box(e).width > 0).length,
  outside: all("section svg text").filter(e => box(e).right > innerWidth + 1).length,
  verdict: [parseFloat(getComputedStyle(document.querySelector(".verdict")).fontSize), box(document.querySelector(".verdict")).top],
  colours: [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor],
});
</script>"""


@pytest.fixture(scope="module")
def browser():
    """Runs Chromium without a window; skips where there is none."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")

    def run(folder, name, *flags):
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser", *flags, f"file://{name}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    return run


@pytest.fixture
def report(tmp_path):
    made = MadeJob(ranks=8, steps=400, late={5: 20}).sample(more={5: {"cpu": 20}}, links=ring_links(8, 10_000_000, 36 * MS))
    return page(analyse(made.write(tmp_path / "job", host="a-host-with-a-long-name.cluster.example")))


def _seen(browser, folder, text, *flags):
    name = folder / "look.html"
    name.write_text(text.replace("</body>", LOOK + "</body>"))
    done = browser(folder, name, "--dump-dom", *flags)
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)[1]))


@pytest.mark.parametrize("width", [1280, 700])
def test_everything_is_on_the_screen(browser, report, tmp_path, width):
    seen = _seen(browser, tmp_path, report, f"--window-size={width},900")
    assert seen["content"] <= seen["width"]  # nobody has to scroll the page sideways; wide tables scroll by themselves
    assert len(seen["charts"]) == 3 + 8 and all(w > 300 and h > 5 for w, h in seen["charts"])
    assert seen["bars"] >= 8 * 2 and seen["outside"] == 0
    assert seen["verdict"][0] >= 20 and seen["verdict"][1] < 120  # the first thing that one sees


def test_dark_screens_get_a_dark_page(browser, report, tmp_path):
    def brightness(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    light = _seen(browser, tmp_path, report)["colours"]
    dark = _seen(browser, tmp_path, report, "--blink-settings=preferredColorScheme=0")["colours"]
    assert brightness(light[0]) < 150 < 600 < brightness(light[1])
    assert brightness(dark[0]) > 600 > 150 > brightness(dark[1])


def test_on_paper(browser, report, tmp_path):
    (tmp_path / "page.html").write_text(report)
    browser(tmp_path, tmp_path / "page.html", "--no-pdf-header-footer", f"--print-to-pdf={tmp_path}/page.pdf")
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    assert len(pdf) < 3 << 20


def test_parts_differ_for_who_sees_no_colours_and_for_who_sees_other_ones():
    assert len({part.colour for part in PARTS}) == len(PARTS) and {part.colour for part in PARTS} <= OKABE_ITO
    assert len({part.pattern for part in PARTS}) == len(PARTS)
