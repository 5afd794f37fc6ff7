# SPDX-License-Identifier: MIT
"""web: the page follows what is recorded; the server answers others while some wait."""

import http.client
import json
import os
import random
import signal
import subprocess
import time

import pytest

import browser as browsers
from harness import seeds
from webs import ALL, Served, known, look, nothing_bad, page, served, step, study  # noqa: F401

pytestmark = pytest.mark.users("ordinary")

HAS = "shfsMap.model.commands.some((c) => c.title === {} && c.end !== null)"
# nothing of the page is to change but what is new
KEPT = """[globalThis.here, location.hash, document.getElementById('search').value, document.getElementById('f-status').value,
    shfsMap.timeline.state.selected?.id, document.getElementById('details').scrollTop, shfsMap.timeline.files.scroll,
    shfsMap.timeline.files.rows[Math.floor(shfsMap.timeline.files.scroll / 24)]?.key,
    document.querySelectorAll('#details .shown').length, shfsMap.timeline.view.window().map((us) => Math.round(us / 1e5)), document.activeElement?.textContent]"""


def has(page, text):
    page.wait(HAS.format(json.dumps(text)))


def go(page, hash_):
    known(page)
    look(page, f"http://127.0.0.1:{page.served.port}/{hash_}")


def child(served, name):
    return int(subprocess.run(["pgrep", "-P", str(served.process.pid), "-x", name], check=True, capture_output=True, text=True).stdout)


def test_what_is_done_appears(study, page, sandbox):
    """By itself; and all that one looks at stays as it is."""
    study.run("for i in $(seq 60); do echo $i > many$i; done; for i in $(seq 30); do echo $i >> config.yaml; done")
    go(page, f"#view=time&file={sandbox.project}/config.yaml&status=ok")
    page.resize(1000, 500)
    page.run("globalThis.here = 1")
    page.run("(([c]) => shfsMap.timeline.view.show(c.begin, c.stop))(shfsMap.model.commands.filter((c) => c.title.startsWith('for i')))")
    page.click("#details button", "text")
    page.wait("!!document.querySelector('#details .shown .line')")
    page.run("document.getElementById('details').scrollTop = 300, shfsMap.timeline.files.scrollBy(120)")
    page.run("new Promise((done) => setTimeout(done, 600))")
    before = page.run(KEPT)
    assert before[5] == 300 and before[6] > 0 and before[8] == 1
    study.run("echo new > appeared.txt; echo one > aaa.txt")
    has(page, "echo new > appeared.txt; echo one > aaa.txt")
    page.run("new Promise((done) => setTimeout(done, 600))")
    now = page.run(KEPT)
    for k, (old, new) in enumerate(zip(before, now)):
        assert old == new or k == 6, (before, now)  # there is a row more above
    # there is more to what is shown: it is there, and what was opened is open still
    versions = int(page.text("#details h3").split()[0])
    study.run("echo more >> config.yaml")
    has(page, "echo more >> config.yaml")
    page.wait(f"document.querySelector('#details h3').textContent === '{versions + 1} versions'")
    assert page.run(KEPT)[8] == 1 and page.run("globalThis.here") == 1
    nothing_bad(page)


def test_results_follow(study, page):
    assert page.text("#graph-of") == "Latest results"
    page.run("globalThis.here = 1")
    study.run("cat fig.png > newest.png")
    page.wait("[...document.querySelectorAll('#picture .node')].some((n) => n.lastChild.textContent === 'newest.png@1')")
    # what is stale now is said, too
    assert page.run("document.querySelectorAll('#picture .stale').length") == 0
    study.run("echo 'rate: 9' > config.yaml")
    page.wait("[...document.querySelectorAll('#picture .stale')].some((n) => n.lastChild.textContent === 'top.txt@2')")
    assert page.run("globalThis.here") == 1
    nothing_bad(page)


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_what_follows_is_what_is_loaded(study, page, sandbox, seed):
    """Whatever is done: the page that was open has what one has that is loaded then."""
    chance = random.Random(seed)
    study.run("mkdir sub; echo a > a; echo b > b; echo e > e")
    go(page, "#view=time")
    page.run("shfsMap.live.recent = 5, globalThis.here = 1")
    for n in range(12):
        step(chance, sandbox, study)
        if n % 4 == 3:
            study.run(f"wait; echo {n} > mark")
            known(page)
            has(page, f"wait; echo {n} > mark")
    here = page.run(f"shfsMap.settled().then(() => {ALL})")
    assert page.run("globalThis.here") == 1
    go(page, "#view=time")
    there = page.run(ALL)
    for key, value in there.items():
        assert here[key] == value, key
    assert len(there["commands"]) > 12
    nothing_bad(page)


def test_from_nothing(sandbox, mounted, shell):
    """A page that had nothing to show."""
    if not browsers.program():
        pytest.skip("there is no Chromium")
    shell_ = shell()
    sandbox.shfs("history", check=False)  # there is an index
    served_, found = Served(sandbox, "--port", "0"), browsers.Browser()
    try:
        found.served = served_
        look(found, served_.url)
        before = found.run("shfsMap.model.commands.length")
        shell_.run("echo first > first.txt")
        has(found, "echo first > first.txt")
        found.wait("[...document.querySelectorAll('#picture .node')].some((n) => n.lastChild.textContent === 'first.txt@1')")
        assert before == 0 and not found.text("#nothing")
        nothing_bad(found)
    finally:
        found.close()
        assert served_.end()[0] == 0


def test_a_tab_that_is_not_seen(study, page):
    """It asks nothing until it is seen again; of several that are, one asks."""
    state = "Object.defineProperty(document, 'visibilityState', {{value: '{}', configurable: true}}), document.dispatchEvent(new Event('visibilitychange')), 1"
    page.run(state.format("hidden"))
    page.settle()
    page.requests = []
    study.run("echo unseen > unseen.txt")
    known(page)
    page.run("new Promise((done) => setTimeout(done, 2500))")
    assert page.requests == [] and not page.run(HAS.format("'echo unseen > unseen.txt'"))
    page.run(state.format("visible"))
    has(page, "echo unseen > unseen.txt")
    tabs = [page.session]
    for _ in range(8):  # more than a browser has connections to one server
        tabs.append(page.tab())
        page.go(f"http://127.0.0.1:{page.served.port}/#view=time")
        page.wait("document.documentElement.dataset.whole === 'yes'")
    study.run("echo all > all.txt")
    for tab in tabs:
        page.session = tab
        has(page, "echo all > all.txt")
    page.session = tabs[0]
    nothing_bad(page)


def test_a_server_that_is_started_anew(study, sandbox):
    if not browsers.program():
        pytest.skip("there is no Chromium")
    found, first = browsers.Browser(), Served(sandbox, "--port", "0", sandbox.project)
    second = None
    try:
        found.served = first
        look(found, f"{first.url}#view=time&file={sandbox.project}/top.txt")
        assert found.text("#details h2") == "top.txt" and not found.text("#away")
        tabs = [found.session, found.tab()]  # of which one asks
        found.go(f"http://127.0.0.1:{first.port}/#view=time")
        found.wait("document.documentElement.dataset.whole === 'yes'")
        assert first.end()[0] == 0, "one that waits holds up no end"
        for found.session in reversed(tabs):
            found.wait("document.getElementById('away').textContent.includes('does not answer')")
        study.run("echo meanwhile > meanwhile.txt")
        second = Served(sandbox, "--port", str(first.port), sandbox.project)
        assert second.token != first.token
        for found.session in reversed(tabs):
            found.wait("document.getElementById('away').textContent.includes('open the address')")
        found.tab()
        found.go(second.url)
        for found.session in reversed(tabs):
            found.wait("document.documentElement?.dataset.whole === 'yes' && document.getElementById('away')?.hidden")
            has(found, "echo meanwhile > meanwhile.txt")
        assert found.text("#details h2") == "top.txt"
        study.run("echo after > after.txt")
        has(found, "echo after > after.txt")
    finally:
        found.close()
        if second:
            assert second.end()[0] == 0


# --- the server ---


def waiting(served, mark):
    """A connection that waits for news."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", f"/news?seen={mark}", headers={"Authorization": f"token {served.token}"})
    return connection


def answer(connection):
    found = connection.getresponse()
    data = json.loads(found.read())
    connection.close()
    return found.status, data


def test_many_that_wait(study, served, sandbox):
    """They hold up nobody, and each is answered."""
    known_mark = served.json("/news")["mark"]
    assert known_mark == served.json("/data")["mark"] == served.json("/news?seen=other")["mark"]
    some = [waiting(served, known_mark) for _ in range(130)]  # more than may wait
    assert served.json("/data?limit=1")["mark"] == known_mark
    assert served.get("/").status == 200 and served.json("/stale") is not None
    study.run("echo heard > heard.txt")
    answers = [answer(connection) for connection in some]
    assert {status for status, _ in answers} == {200}
    told = [data["mark"] for _, data in answers if data["mark"] != known_mark]
    assert len(told) >= 90 and len(set(told)) == 1
    assert served.ask("/news").status == 403
    assert "echo heard > heard.txt" in [c["text"] for c in served.json("/data")["commands"]]


def test_the_word_comes_by_itself(study, sandbox):
    """Not because it was time to look again: what was written is what has the index asked."""
    sandbox.env["SHFS_DEBUG"] = "query"
    found = Served(sandbox, "--port", "0", sandbox.project)
    try:
        told = []
        for n in range(3):
            sandbox.shfs("history", "--limit", "1", check=False)
            connection = waiting(found, found.json("/news")["mark"])
            assert found.get("/data?limit=1&until=1").status == 200  # the other one waits now
            study.run(f"echo {n} > n")
            told.append(answer(connection)[1]["mark"])
    finally:
        status, said = found.end()
    assert status == 0 and len(set(told)) == 3
    lines = [line.split(": ", 2)[2] for line in said.splitlines() if ": news: " in line or "something was written" in line]
    for mark in told[1:]:  # the first one has the index asked in any case
        at = lines.index(f"news: {mark}")
        assert lines[at - 1].startswith("something was written: the index is asked in "), lines


def test_since(study, served):
    """The latest commands, back to a moment."""
    whole = served.json("/data?limit=5000")["commands"]
    for at in 0, 3, len(whole) - 1:
        began = whole[at]["begin"]
        part = served.json(f"/data?limit=5000&since={began}000")
        assert [c["begin"] for c in part["commands"]] == [c["begin"] for c in whole if c["begin"] >= began] and not part["cut"]
    assert served.json(f"/data?limit=1&since={whole[3]['begin']}000")["cut"]
    for bad in "since=x", "since=-1", "since=0":
        assert served.get(f"/data?{bad}").status == 400


def test_what_takes_long_holds_up_nobody(study, served, sandbox):
    study.run("echo 'rate: 9' > config.yaml")
    known_ = json.loads(sandbox.shfs("stale", "--json", check=False).stdout)["commands"]
    worker = child(served, "shfs-answers")
    os.kill(worker, signal.SIGSTOP)  # as if it had very much to read
    try:
        slow = [http.client.HTTPConnection("127.0.0.1", served.port, timeout=60) for _ in range(3)]
        for connection in slow:
            connection.request("GET", "/stale", headers={"Authorization": f"token {served.token}"})
        assert served.get("/").status == 200 and len(served.json("/data")["commands"]) > 5
        study.run("echo meanwhile > meanwhile.txt")
        mark = served.json("/news")["mark"]
        assert answer(waiting(served, "other"))[1]["mark"] == mark
    finally:
        os.kill(worker, signal.SIGCONT)
    for connection in slow:
        status, data = answer(connection)
        assert status == 200
        assert {(one["path"], one["n"]) for one in data["stale"]} == {(r["path"], r["n"]) for c in known_ for r in c["results"]} != set()
    with open(f"/proc/{worker}/status", encoding="utf-8") as file:
        assert "Seccomp:\t2" in file.read()
    # if it dies, that is all that is missing
    sandbox.allow_exit(-signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    assert served.get("/stale").status == served.get("/stale").status == 500
    assert served.get("/data").status == 200


def test_it_ends_while_requests_come(study, sandbox):
    """^C, and at that moment tabs ask for what is answered later."""
    found = Served(sandbox, "--port", "0", sandbox.project)
    headers = {"Authorization": f"token {found.token}"}
    mark = found.json("/news")["mark"]
    kept = [http.client.HTTPConnection("127.0.0.1", found.port, timeout=60) for _ in range(5)]
    for connection in kept:
        connection.request("GET", f"/news?seen={mark}x", headers=headers)
        assert connection.getresponse().read()
    held = waiting(found, mark)
    os.kill(found.process.pid, signal.SIGSTOP)
    for n, connection in enumerate(kept):
        connection.request("GET", "/stale" if n % 2 else f"/news?seen={mark}", headers=headers)
    found.process.send_signal(signal.SIGINT)
    os.kill(found.process.pid, signal.SIGCONT)
    status, said = found.end()
    assert status == 0 and "Fatal" not in said, said
    for connection in held, *kept:
        connection.close()


def cpu_ticks(served):
    with open(f"/proc/{served.process.pid}/stat", encoding="utf-8") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))


def test_a_process_beside_it_dies_at_work(study, served, sandbox):
    """What waits for news waits on, and costs nothing."""
    refresher = child(served, "shfs-refresh")
    held = waiting(served, served.json("/news")["mark"])
    served.get("/data?limit=1&until=1")  # the other one waits now
    os.kill(refresher, signal.SIGSTOP)
    sandbox.shfs("run", "--", "true")
    time.sleep(1)  # it is asked, and does not answer
    sandbox.allow_exit(-signal.SIGKILL)
    os.kill(refresher, signal.SIGKILL)
    time.sleep(0.5)
    before = cpu_ticks(served)
    time.sleep(2)
    assert cpu_ticks(served) - before < 50 and served.get("/").status == 200
    held.close()
