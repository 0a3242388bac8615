"""The page in a real browser: no errors, charts drawn, a method toggles off and on.

Needs Chromium with its driver and selenium; skipped where one of them is missing.
"""

from __future__ import annotations

import shutil

import pytest
from made_up import measured, run_record

from lmma_lab.publish import publish
from lmma_lab.report.charts import plotly_script

webdriver = pytest.importorskip(
    "selenium.webdriver", reason="selenium is not installed: pip install selenium"
)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="no Chromium with chromedriver on this machine"
    ),
    pytest.mark.skipif(plotly_script() is None, reason="plotly is not installed: lmma-lab[report]"),
]

VISIBLE = """
const chart = document.getElementById(arguments[0]);
const traces = chart.data.filter(trace => trace.legendgroup === arguments[1]);
return traces.map(trace => trace.visible === undefined ? true : trace.visible);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    records = [
        run_record(problem, method, n, seed, seed * n * 100)
        for problem in ("sphere", "cigar", "rotated-cigar")
        for method in ("lm-ma-es", "ma-es")
        for n in (128, 256)
        for seed in (1, 2, 3)
    ] + [measured("timing", "lm-ma-es", n, 1e-6 * n) for n in (128, 1024)]
    publish(records, out, "lmma reproduce")
    return out / "report.html"


@pytest.fixture(scope="module")
def browser(page):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,1600"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.get(page.as_uri())
    yield driver
    driver.quit()


def test_it_loads_without_a_word_on_the_console(browser):
    assert browser.get_log("browser") == []
    assert "reproduced" in browser.title
    assert browser.execute_script("return document.querySelectorAll('.js-plotly-plot').length") == 4


def test_the_page_makes_no_network_requests(browser):
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [address for address in asked if not address.startswith("data:")] == []


def test_a_click_in_the_legend_toggles_a_method_in_every_panel(browser):
    assert set(browser.execute_script(VISIBLE, "chart-fig2", "MA-ES")) == {True}
    legend = browser.find_elements("css selector", "#chart-fig2 .legend .traces")
    entry = next(item for item in legend if item.text == "MA-ES")
    toggle = entry.find_element("css selector", ".legendtoggle")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", entry)
    webdriver.ActionChains(browser).move_to_element(toggle).click().perform()
    _until(browser, lambda: set(browser.execute_script(VISIBLE, "chart-fig2", "MA-ES")) == {"legendonly"})
    assert set(browser.execute_script(VISIBLE, "chart-fig2", "LM-MA-ES")) == {True}
    webdriver.ActionChains(browser).move_to_element(toggle).click().perform()
    _until(browser, lambda: set(browser.execute_script(VISIBLE, "chart-fig2", "MA-ES")) == {True})


def test_a_button_switches_to_linear_axes(browser):
    kinds = "return document.getElementById('chart-fig3')._fullLayout.yaxis.type"
    assert browser.execute_script(kinds) == "log"
    buttons = browser.find_elements("css selector", "#chart-fig3 .updatemenu-button")
    linear = next(button for button in buttons if button.text == "linear")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", linear)
    webdriver.ActionChains(browser).move_to_element(linear).click().perform()
    _until(browser, lambda: browser.execute_script(kinds) == "linear")
    assert browser.get_log("browser") == []


def test_a_row_of_the_ledger_opens_its_rule(browser):
    details = browser.find_element("css selector", "details")
    details.find_element("css selector", "summary").click()
    assert "Median CPU seconds" in details.text


def test_a_telephone_gets_one_column_and_every_verdict(browser, page):
    telephone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", telephone)
    browser.get(page.as_uri())
    domain = "return document.getElementById('chart-fig2')._fullLayout.xaxis.domain"
    assert browser.execute_script(domain) == [0, 1]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    for verdict in browser.find_elements("css selector", "td.verdict"):
        assert verdict.rect["x"] + verdict.rect["width"] <= 400
    assert browser.get_log("browser") == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def _until(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(lambda _: condition())
