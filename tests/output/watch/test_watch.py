"""``lmma watch`` follows logs in any state, serves nothing else, and runs nothing from them."""

import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import threading

import pytest

import lmma
from lmma.cli import main
from lmma.cli.watch import follower_of
from lmma.output.watch import follow
from lmma.output.watch.follow import LOGS, MOST, Follower, Logs
from lmma.output.watch.server import WatchServer, page
from lmma.run.archive import follower as archive_follower

HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=document.title='run'>.jsonl"


def line(evaluations, **more):
    record = {"evaluations": evaluations, "best_fun": 1 / evaluations, "sigma": 0.5, "step": 0.1,
              "seconds": evaluations / 100, "failures": 0, "restarts": 0, "popsize": 10}  # fmt: skip
    return json.dumps(record | more) + "\n"


def rich(evaluations, **more):
    """Return a line with all that a run writes."""
    steps = [1e-3 / evaluations, 2e-3, 3e-3, 4e-3, 5e-3]
    named = {f"x[{k}]": [k / 10, 1e-3] for k in range(8)}
    ends = {"x[1]": 1e-3, "x[2]": 2e-3}
    calm = {"quality": 1.0, "repeats": 1.0, "rate": 1.0}
    return line(
        evaluations, median_fun=2 / evaluations, axis_ratio=30.5, steps=steps, shortest=ends, longest=ends,
        coordinates=named, late=0, **(calm | more),
    )  # fmt: skip


def written(path, count, start=1):
    path.write_text("".join(line(10 * number) for number in range(start, start + count)))
    return path


def seen(follower):
    follower.update()
    data = follower.data()
    return data["records"], data["columns"]["evaluations"]


def test_a_growing_log_is_followed_and_half_a_line_waits(tmp_path):
    log = tmp_path / "run.jsonl"
    follower = Follower(log)
    assert seen(follower) == (0, [])
    assert "No such file" in follower.problem
    log.write_text("")
    assert seen(follower) == (0, [])
    assert follower.problem == ""
    log.write_text(line(10) + line(20)[:25])
    assert seen(follower) == (1, [10])
    log.write_text(line(10) + line(20) + line(30))
    assert seen(follower) == (3, [10, 20, 30])
    assert follower.odd == 0


def test_a_truncated_or_replaced_log_is_read_again(tmp_path):
    log = written(tmp_path / "run.jsonl", 5)
    follower = Follower(log)
    assert seen(follower)[0] == 5
    log.write_text(line(70))
    assert seen(follower) == (1, [70])
    written(log, 9, start=20)  # in place, and longer than the one before when it is looked at
    assert seen(follower) == (9, [200 + 10 * k for k in range(9)])
    written(tmp_path / "new.jsonl", 3, start=100)
    os.replace(tmp_path / "new.jsonl", log)
    assert seen(follower) == (3, [1000, 1010, 1020])
    log.unlink()
    assert seen(follower)[0] == 3  # the last that was known
    assert follower.problem


def test_invalid_lines_are_counted_and_skipped(tmp_path):
    log = tmp_path / "run.jsonl"
    odd = [
        "{",
        "[1]",
        "3",
        "null",
        '{"evaluations": "many"}',
        '{"evaluations": 1e999}',
        "[" * 100_000,
        "\x00",
    ]
    odd.append('{"evaluations": ' + "9" * 5000 + "}")
    log.write_text("".join(f"{text}\n" for text in odd) + line(10, best_fun=None, sigma="x", extra={"a": 1}))
    follower = Follower(log)
    assert seen(follower) == (1, [10])
    assert follower.odd == len(odd)
    assert follower.data()["columns"]["sigma"] == [None]
    log.write_bytes(b"\xff" * (1 << 21) + b"\n" + line(20).encode())
    assert seen(follower)[1] == [20]


def test_a_long_log_is_thinned_and_ends_where_it_does(tmp_path):
    follower = Follower(written(tmp_path / "run.jsonl", 100_000))
    records, evaluations = seen(follower)
    assert records == 100_000
    assert follower.odd == 0
    assert MOST / 4 < len(evaluations) <= MOST
    assert evaluations[0] == 10
    assert evaluations[-1] == 1_000_000
    assert evaluations == sorted(evaluations)


def test_a_long_log_is_looked_into_only_where_it_is_drawn(tmp_path, monkeypatch):

    looked = []
    monkeypatch.setattr(follow, "_record", lambda line, old=follow._record: looked.append(1) or old(line))
    seen(Follower(written(tmp_path / "run.jsonl", 100_000)))
    assert len(looked) < 10_000


def test_the_files_of_a_run_exist(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text(rich(10) + rich(20, x={"rate": 0.5, "kind": "a"}, reason="tolx"))
    follower = Follower(log)
    seen(follower)
    data = follower.data()
    assert data["columns"]["axis_ratio"] == [30.5, 30.5]
    assert data["columns"]["median_fun"] == [0.2, 0.1]
    assert [column[0] for column in data["steps"]] == [1e-4, 2e-3, 3e-3, 4e-3, 5e-3]
    assert data["names"] == [f"x[{k}]" for k in range(8)]
    assert data["means"][3] == [0.3, 0.3]
    assert data["deviations"][3] == [1e-3, 1e-3]
    assert data["shortest"] == [("x[1]", 1e-3), ("x[2]", 2e-3)]
    assert data["best"] == [("rate", "0.5"), ("kind", "a")]
    assert data["reason"] == "tolx"


def test_the_description_of_the_run_is_there_and_that_of_a_resumed_run_replaces_it(tmp_path):
    log = written(tmp_path / "run.jsonl", 10_001)
    first = {
        "method": "pulse",
        "n": 60,
        "seed": 1,
        "maxfevals": 300,
        "relative": True,
        "odd": [1],
        "maxtime": "x",
    }
    later = {"method": "pulse", "n": 60, "maxfevals": 900}
    lines = log.read_text().splitlines(keepends=True)
    lines[0], lines[7777] = line(10, run=first), line(77780, run=later)
    log.write_text(lines[0])
    follower = Follower(log)
    seen(follower)
    assert follower.data()["run"] == {
        "method": "pulse",
        "n": 60,
        "seed": 1,
        "maxfevals": 300,
        "relative": True,
    }
    log.write_text("".join(lines))
    assert seen(follower)[0] == 10_001
    assert follower.data()["run"] == {"method": "pulse", "n": 60, "maxfevals": 900, "relative": False}


@pytest.mark.parametrize("run", [3, None, [1], {"n": {}}, {"method": ["<b>"] * 99, "n": 1e400}, {}])
def test_a_description_that_is_none_does_no_harm(run, tmp_path):
    (tmp_path / "run.jsonl").write_text(line(10, run=run) + line(20))
    follower = Follower(tmp_path / "run.jsonl")
    assert seen(follower)[0] == 2
    assert len(json.dumps(follower.data(), allow_nan=False)) < 3000


def test_a_run_is_followed_to_its_reason_however_it_is_written(tmp_path):
    import numpy as np

    import lmma

    log = tmp_path / "run.jsonl"
    followers = [Follower(log)]

    def look(intermediate_result):
        for follower in followers:
            follower.update()

    lmma.minimize(
        lambda x: float(x @ x), np.ones(5), 0.5, values="ranks", rng=1, maxiter=1, log=log, callback=look
    )
    lmma.minimize(
        lambda x: float(x @ x), np.ones(5), 0.5, values="ranks", rng=1, maxiter=60, log=log, callback=look
    )
    followers.append(Follower(log))
    for follower in followers:  # one that saw the last record before its reason was added, one that did not
        follower.update()
        assert follower.data()["reason"] == "maxiter"
        assert follower.odd == 0
        assert follower.data()["columns"]["axis_ratio"][0] >= 1


@pytest.mark.parametrize("at", [3, 700])
def test_a_reason_added_to_a_record_that_was_read_is_understood(tmp_path, at):
    log = written(tmp_path / "run.jsonl", at)
    follower = Follower(log)
    assert seen(follower)[0] == at
    text = log.read_text()
    log.write_text(text[:-2] + ', "reason": "tolfun"}\n')
    assert seen(follower)[0] == at
    assert follower.data()["reason"] == "tolfun"
    assert follower.odd == 0


def test_texts_in_records_that_are_none_do_no_harm(tmp_path):
    log = tmp_path / "run.jsonl"
    odd = [
        {"steps": 3}, {"steps": ["a"] * 5}, {"coordinates": [1]}, {"coordinates": {"a": [1]}}, {"x": [1]},
        {"shortest": {"a": "b"}}, {"x": {"a": {"b": ["c"] * 999}}}, {"reason": {"a": 1}}, {"longest": 3},
    ]  # fmt: skip
    log.write_text("".join(line(10 * k + 10, **more) for k, more in enumerate(odd)))
    follower = Follower(log)
    assert seen(follower)[0] == len(odd)
    json.dumps(follower.data(), allow_nan=False)


def test_a_folder_shows_its_newest_logs_and_those_that_come_later(tmp_path):
    for k in range(9):
        os.utime(written(tmp_path / f"{k}.jsonl", 2), (k, k))
    (tmp_path / "notes.txt").write_text("secret")
    logs = Logs([tmp_path])
    data = logs.data()
    assert [log["name"] for log in data["logs"]] == [f"{k}.jsonl" for k in range(2, 9)]
    assert (data["left_out"], LOGS) == (2, 7)
    written(tmp_path / "a new one.jsonl", 3)
    assert "a new one.jsonl" in [log["name"] for log in logs.data()["logs"]]
    assert "2.jsonl" not in [log["name"] for log in logs.data()["logs"]]


def evaluated(flow, teeth, oil):
    if teeth > 30:
        raise RuntimeError("the mesh is broken")
    return math.log10(flow) ** 2 + abs(teeth - 17) + (oil == "A")


def archived(path, budget):
    space = lmma.Space(
        flow=lmma.Real(1e-4, 1e-1, log=True, unit="kg/s"), teeth=lmma.Integer(10, 40),
        oil=lmma.Choice(["A", "B"]),
    )  # fmt: skip
    return lmma.minimize(evaluated, space, rng=1, maxfevals=budget, archive=path)


def test_an_archive_is_followed_while_it_grows(tmp_path):
    file = tmp_path / "runs.db"
    (follower,) = Logs([file], follower_of).update()
    assert "No such file" in follower.data()["problem"]
    counts = []
    for budget in (60, 120):
        result = archived(file, budget)
        follower.update()
        data = follower.data()
        counts.append(follower.records)
        columns = data["columns"]
        assert columns["evaluations"] == list(range(1, len(result.archive) + 1))
        assert columns["best_fun"][-1] == result.fun == min(v for v in columns["value"] if v is not None)
        assert columns["failures"][-1] == result.archive.summary()["failed"] > 0
        assert columns["seconds"] == sorted(columns["seconds"])
        assert dict(data["best"])["flow"] == f"{result.x['flow']:.7g} kg/s"
        flow, teeth, oil = data["axes"]
        assert flow["ends"] == ["0.0001", "0.1"]
        assert flow["at"][0] == pytest.approx((math.log10(result.x["flow"]) + 4) / 3, abs=1e-4)
        assert (teeth["name"], oil["ends"]) == ("teeth", ["A", "B"])
    assert counts[0] < counts[1]
    file.unlink()
    first = archived(file, 20)  # another archive under the same name
    follower.update()
    assert follower.records == len(first.archive)


def test_a_long_archive_is_thinned_and_ends_where_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_follower, "MOST", 32)
    result = archived(tmp_path / "runs.db", 300)
    (follower,) = Logs([tmp_path / "runs.db"], follower_of).update()
    columns = follower.data()["columns"]
    assert len(columns["evaluations"]) <= 33
    assert columns["evaluations"][-1] == len(result.archive)
    assert columns["best_fun"][-1] == result.fun


def test_a_damaged_archive_is_named_on_the_page(tmp_path):
    archived(tmp_path / "runs.db", 300)
    (follower,) = Logs([tmp_path / "runs.db"], follower_of).update()
    assert follower.problem == ""
    (tmp_path / "runs.db").write_bytes(bytes(5000))
    again = type(follower)(tmp_path / "runs.db")
    again.update()
    assert again.problem.startswith("runs.db is not an lmma archive")
    assert again.data()["records"] == 0


def test_once_writes_the_page_of_an_archive(tmp_path, capsys):
    result = archived(tmp_path / "runs.db", 60)
    assert main(["watch", str(tmp_path / "runs.db"), "--once", str(tmp_path / "runs.html")]) == 0
    assert f"{len(result.archive)} records" in capsys.readouterr().out
    held = re.search(r'id="data">(.*?)</script>', (tmp_path / "runs.html").read_text())[1]
    (shown,) = json.loads(held)["logs"]
    assert [axis["name"] for axis in shown["axes"]] == ["flow", "teeth", "oil"]


@pytest.fixture
def served(tmp_path):
    """Serves a log and a hostile name beside a secret; returns the server and a way to ask it."""
    (tmp_path / "secret").write_text("the secret")
    logs = [written(tmp_path / "run.jsonl", 50), tmp_path / "b.jsonl"]
    server = WatchServer(Logs(logs), "runs")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def ask(path, method="GET", token=server.token, **headers):
        path += f"?token={token}" if token else ""
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    yield server, ask
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_page_and_its_data_are_served_and_nothing_else(served, tmp_path):
    server, ask = served
    assert server.server_address[0] == "127.0.0.1"
    status, body = ask("/")
    assert status == 200
    assert "http" not in re.sub(
        r"http-equiv|'http://www.w3.org/2000/svg'", "", body
    )  # nothing from elsewhere
    status, body = ask("/data")
    assert [log["records"] for log in json.loads(body)["logs"]] == [50, 0]
    assert str(tmp_path) not in body
    for path in ("/secret", "/../secret", "/%2e%2e/secret", f"/{tmp_path}/secret", "//secret",
                 "/data/../secret", "/run.jsonl", "/etc/passwd", "secret"):  # fmt: skip
        status, body = ask(path)
        assert status in (400, 404), path
        assert "the secret" not in body
    assert ask("/data", method="POST")[0] == 501
    assert ask("/data", Host="evil.example")[0] == 403  # a name made to lead here


def test_nothing_is_answered_without_the_token(served):
    server, ask = served
    assert len(server.token) >= 32
    for path in ("/", "/data", "/secret", f"/data?tokens={server.token}", "/?token=", "/data?file=secret"):
        assert ask(path, token="")[0] == 403, path
    for token in ("x", server.token[:-1], server.token + "x", server.token.swapcase(), "%C3%A9"):
        assert ask("/data", token=token)[0] == 403
    _, body = ask("/", token="")
    assert "address that lmma watch printed" in body
    assert server.token not in body


def test_every_server_has_a_token_of_its_own(served, tmp_path):
    with WatchServer(Logs([tmp_path / "run.jsonl"]), "runs") as other:
        assert other.token != served[0].token


@pytest.mark.parametrize("request_line", [b"GET /data?token=%s HTTP/1.1", b"GET / HTTP/1.1", b""], ids=str)
def test_a_client_that_leaves_causes_no_traceback(served, request_line, capfd, tmp_path):
    server, ask = served
    written(tmp_path / "run.jsonl", 30_000)  # the answer does not fit into the buffers of the connection
    for _ in range(5):
        client = socket.create_connection(("127.0.0.1", server.server_port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset on close
        if request_line:
            head = request_line.replace(b"%s", server.token.encode())
            client.sendall(head + b"\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.server_port)
        client.close()
    assert ask("/")[0] == 200
    server.shutdown()
    for thread in threading.enumerate():
        if "process_request" in thread.name:
            thread.join(20)
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_as_a_log_is_rejected_without_waiting(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.jsonl")
    follower = Follower(tmp_path / "pipe.jsonl")
    follower.update()
    assert follower.problem == "not a regular file"
    assert main(["watch", str(tmp_path / "pipe.jsonl"), "--once", str(tmp_path / "x.html")]) == 2
    assert "not a regular file" in capsys.readouterr().err
    (tmp_path / "pipe.jsonl").unlink()
    written(tmp_path / "pipe.jsonl", 4)
    assert seen(follower)[0] == 4


def test_texts_cannot_leave_their_place_in_the_page():
    text = page(HOSTILE, "once", {"logs": [{"name": HOSTILE, "records": 0}], "left_out": 0})
    assert len(re.findall("<script", text)) == 3
    assert "<img" not in text


def test_once_writes_the_page(tmp_path, capsys):
    log = written(tmp_path / "run.jsonl", 20)
    assert main(["watch", str(log), "--once", str(tmp_path / "run.html")]) == 0
    assert "20 records" in capsys.readouterr().out
    held = re.search(r'id="data">(.*?)</script>', (tmp_path / "run.html").read_text())[1]
    assert json.loads(held)["logs"][0]["columns"]["evaluations"][-1] == 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere/run.jsonl"], "no such folder"),
        (["."], "no .jsonl file"),
        (["gone.jsonl", "--once", "x.html"], "cannot be read"),
        (["gone.jsonl", "--once", "x.png"], "must end in"),
        (["gone.jsonl", "--port", "99999"], "--port 99999"),
        ([f"{i}.jsonl" for i in range(8)], "at most"),
    ],
    ids=["folder", "no logs", "missing", "suffix", "port", "many"],
)
def test_mistakes_are_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", *words]) == 2
    (complaint,) = capsys.readouterr().err.splitlines()
    assert said in complaint


BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if BROWSER is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                 "--disable-quic", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update",
                 "--disable-sync", "--window-size=1100,1000"):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def drawn(browser, records):
    from selenium.webdriver.support.ui import WebDriverWait

    script = "return document.body.dataset.drawn"
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(script) == str(records))


def test_a_browser_shows_a_log_and_what_is_added_to_it(browser, served, tmp_path):
    server, _ = served
    browser.get(server.address)
    drawn(browser, 50)
    assert browser.find_element("id", "state").text == "live"
    titles = [caption.text.split("\n")[0] for caption in browser.find_elements("tag name", "figcaption")]
    assert titles == ["Value", "Step size", "Speed"]
    assert "No data for: failures, restarts, noise, constraints." in browser.find_element("id", "note").text
    with open(tmp_path / "run.jsonl", "a") as log:
        noisy = {"quality": 0.2, "repeats": 1, "rate": 0.5, "average_fun": 0.125}
        log.write(rich(5000, best_fun=1e-7, failures=3, restarts=1, violation=0.5, **noisy))
        log.write('{"evaluations": 60')
    drawn(browser, 51)
    assert "1e-7" in browser.find_element("tag name", "table").text
    titles = [caption.text.split("\n")[0] for caption in browser.find_elements("tag name", "figcaption")]
    assert set(titles) >= {"Axis ratio", "Steps of coordinates", "Mean", "Failed evaluations", "Restarts",
                           "Constraint violation", "Noise", "Average value"}  # fmt: skip
    assert "0.125" in browser.find_element("tag name", "table").text
    assert "x[1]" in browser.find_element("id", "details").text
    with open(tmp_path / "run.jsonl", "a") as log:  # 6,000 of 10,000 evaluations in 60 s
        facts = {
            "method": "pulse",
            "n": 60,
            "seed": 4,
            "maxfevals": 10_000,
            "maxtime": 5000,
            "relative": True,
        }
        log.write("00" + rich(6000, run=facts)[len('{"evaluations": 6000') :])
    drawn(browser, 52)
    (facts,) = browser.find_elements("class name", "facts")
    assert facts.text == "pulse · n = 60 · seed 4 · 10,000 evaluations · 1 h 23 min"
    assert "40 s" in [cell.text for cell in browser.find_elements("css selector", "[data-title='time left']")]
    assert "relative to the bounds" in browser.find_element("id", "details").text
    (tmp_path / "run.jsonl").write_text("")  # cut to nothing, then a new run
    drawn(browser, 0)
    assert browser.find_elements("tag name", "figure") == []
    written(tmp_path / "run.jsonl", 7, start=3)
    drawn(browser, 7)
    assert browser.get_log("browser") == []


def test_a_browser_is_worked_by_keys_and_fingers(browser, served, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    server, _ = served
    written(tmp_path / "b.jsonl", 20)
    browser.get(server.address)
    drawn(browser, 70)

    def press(key):
        ActionChains(browser).send_keys(key).perform()

    curves = len(browser.find_elements("css selector", "polyline"))
    press("2")  # the second run is hidden
    assert len(browser.find_elements("css selector", "polyline")) == curves // 2
    browser.find_elements("css selector", "#table button")[1].click()
    assert len(browser.find_elements("css selector", "polyline")) == curves
    press("x")
    assert "over time" in browser.find_element("id", "tools").text
    press("\ue012")  # to the left: the cursor shows values before the end
    cursors = browser.find_elements("css selector", ".cursor")
    assert {cursor.get_attribute("visibility") for cursor in cursors} == {"visible"}
    press("\ue00c")  # escape
    press("p")
    assert "resume" in browser.find_element("id", "tools").text
    browser.set_window_size(400, 900)
    wide = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0  # nothing to scroll sideways
    assert browser.get_log("browser") == []


def test_a_browser_runs_nothing_from_a_log(browser, tmp_path):
    log = tmp_path / "run.jsonl"
    named = {"coordinates": {HOSTILE: [0.1, 0.2]}, "shortest": {HOSTILE: 1.0}, "longest": {HOSTILE: 1.0}}
    log.write_text("".join(line(10 * k, **named, x={HOSTILE: HOSTILE}, reason=HOSTILE) for k in (1, 2, 3)))
    follower = Follower(log)
    follower.update()
    text = page(HOSTILE, "once", {"logs": [follower.data() | {"name": HOSTILE}], "left_out": 0})
    (tmp_path / "page.html").write_text(text)
    browser.get((tmp_path / "page.html").as_uri())
    drawn(browser, 3)
    assert browser.title == HOSTILE
    for part in ("table", "details", "panels"):
        assert "<img src=x" in browser.find_element("id", part).text  # as text
    assert browser.find_elements("tag name", "img") == []
    assert browser.get_log("browser") == []


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="needs Ctrl-C")
def test_ctrl_c_ends_the_command(environment, tmp_path):
    import subprocess
    import sys

    written(tmp_path / "run.jsonl", 3)
    command = [sys.executable, "-m", "lmma", "watch", "run.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert re.match(
            r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32} shows run.jsonl", process.stdout.readline()
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
