# SPDX-License-Identifier: MIT
"""web: the server, asked as others might ask it; the page, opened in a browser and clicked through."""

import os
import shlex
import socket
import subprocess
import urllib.parse

import pytest

from analysis import LINES
from webs import Served, look, nothing_bad, page, served, stripe, study  # noqa: F401


def content(path, n):
    return f"/content?path={urllib.parse.quote(os.fsencode(path))}&n={n}"


# --- who may ask, and what ---


@pytest.mark.users("ordinary")
def test_only_those_who_know_the_token(served):
    port, token = served.port, served.token
    wrong = ("0" if token[0] != "0" else "1") + token[1:]
    for path in "/", "/data", "/stale", "/content?path=/etc/passwd&n=1", "/nothere":
        assert served.ask(path).status == 403
        for bad in wrong, token[:-1], token + "0", "":
            assert served.ask(f"{path}{'&' if '?' in path else '?'}token={bad}").status == 403
            assert served.ask(path, Authorization=f"token {bad}").status == 403
            assert served.ask(path, Cookie=f"shfs-{port}={bad}").status == 403
    first = served.ask(f"/?token={token}")
    assert first.status == 200
    cookie = first.headers["Set-Cookie"]
    assert cookie.startswith(f"shfs-{port}={token};") and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert served.ask("/data", Cookie=f"a=b; shfs-{port}={token}; c=d").status == 200
    assert served.ask("/data", Cookie=f"shfs-1={token}").status == 403
    # another site's page, with the cookie or with a name that leads here
    for site in "cross-site", "same-site":
        assert served.ask("/data", Cookie=f"shfs-{port}={token}", Sec_Fetch_Site=site).status == 403
    for host in "evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil.example":
        assert served.ask(f"/data?token={token}", Host=host).status == 403
    assert served.ask(f"/data?token={token}", Host=f"localhost:{port}").status == 200
    for method in "POST", "PUT", "DELETE", "OPTIONS":
        assert served.ask(f"/data?token={token}", method).status == 405


@pytest.mark.users("ordinary")
def test_nothing_else_is_given(served, sandbox):
    for path in "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/content/../data", "/data/":
        assert served.get(path).status == 404, path
    for path in "/etc/passwd", "../../etc/passwd", f"{sandbox.project}/../project/out.csv", f"{sandbox.project}/nothere":
        assert served.get(content(path, 1)).status == 404, path
    for bad in "limit=0", "limit=5001", "limit=-1", "until=x", "limit=99999999999999999999", "until=":
        assert served.get(f"/data?{bad}").status == 400, bad
    assert served.get(content(f"{sandbox.project}/out.csv", 0)).status == 400
    for path in "/", "/data", content(f"{sandbox.project}/fig.png", 1):
        answer = served.get(path)
        assert answer.status == 200 and not answer.headers["Access-Control-Allow-Origin"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith("sandbox;") and answer.headers["Content-Type"] == "image/png"
    with open(f"/proc/{served.process.pid}/status", encoding="utf-8") as file:
        assert "Seccomp:\t2" in file.read()
    found = subprocess.run(["ss", "-Hltn", f"sport = :{served.port}"], check=True, capture_output=True, text=True).stdout
    assert f"127.0.0.1:{served.port}" in found and len(found.splitlines()) == 1, "on the loopback alone"


@pytest.mark.users("ordinary")
def test_data_in_parts(served, sandbox):
    """What comes in parts is what comes at once; and each content is what shfs cat says."""
    whole = served.json("/data?limit=5000")
    assert not whole["cut"] and len([c for c in whole["commands"] if c["id"]]) == len(LINES) + 2
    for limit in 1, 3:
        parts, until, n = [], "", 0
        while True:
            part = served.json(f"/data?limit={limit}{until}")
            assert len(part["commands"]) <= limit
            parts += [(c["id"], c["text"], [part["paths"][p] for p in c["uses"][1::6]]) for c in part["commands"]]
            n += 1
            if not part["cut"]:
                break
            until = f"&until={part['next']}"
        assert n >= len(whole["commands"]) // limit
        assert parts == [(c["id"], c["text"], [whole["paths"][p] for p in c["uses"][1::6]]) for c in whole["commands"]]
    seen = 0
    for path, n, *_ in whole["versions"]:
        path = whole["paths"][path]
        answer = served.get(content(path, n))
        cat = sandbox.shfs("cat", f"{path}@{n}", check=False)
        assert (answer.status == 200) == (cat.status == 0), path
        if cat.status == 0:
            assert answer.bytes == cat.stdout_bytes
            seen += 1
    assert seen > 8


@pytest.mark.users("ordinary")
def test_overview(served, study):
    """How much was done when: of each command, once, and of those that failed."""
    study.run("cat nothere > failed.txt; false")
    study.run("sleep 1.5")
    study.run("echo later > later.txt")
    served.sandbox.shfs("history", "--limit", "1")
    commands = served.json("/data?limit=5000")["commands"]
    spans = served.json("/overview")["spans"]
    spans = [spans[k : k + 4] for k in range(0, len(spans), 4)]
    assert spans == sorted(spans) and len(spans) > 1
    for first, last, n, failed in spans:
        inside = [c for c in commands if first <= c["begin"] <= last]
        assert (min(c["begin"] for c in inside), max(c["begin"] for c in inside)) == (first, last)
        assert (len(inside), sum(bool(c["status"]) for c in inside)) == (n, failed)
    assert sum(n for _, _, n, _ in spans) == len(commands) and sum(failed for *_, failed in spans) > 0


@pytest.mark.users("ordinary")
def test_port(study, sandbox):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = sandbox.shfs("web", "--no-browser", "--port", str(port), check=False)
        assert found.status and f"cannot listen on port {port}" in found.stderr and "hint" in found.stderr
    for bad in "x", "65536", "-1", "1x":
        assert sandbox.shfs("web", f"--port={bad}", check=False).status == 2
    assert "never seen" in sandbox.shfs("web", "--no-browser", "/nothere", check=False).stderr
    a, b = Served(sandbox), Served(sandbox)
    assert a.port != b.port and a.token != b.token, "another one that is free"
    assert b.ask("/data", Authorization=f"token {a.token}").status == 403
    assert [x.end()[0] for x in (a, b)] == [0, 0]


# --- in the browser ---


def labels(page):
    return set(page.run("[...document.querySelectorAll('#picture .node')].map((n) => n.lastChild.textContent)"))


@pytest.mark.users("ordinary")
def test_results_first(page, sandbox, study):
    assert page.text("#graph-of") == "Latest results"
    assert {"fig.png@2", "top.txt@2", "out.csv@2", "plot2.png@1", "config.yaml@3"} <= labels(page)
    assert "top.txt@1" not in labels(page) and "token" not in page.run("location.href")
    assert page.run("document.querySelector('#picture image').href.baseVal").endswith("fig.png&n=2")
    page.wait("[...document.querySelectorAll('#picture .first')].some((e) => e.textContent.includes('rate: 5'))")
    assert page.run("document.querySelectorAll('#picture .stale').length") == 0
    nothing_bad(page)

    # what is done now is there when the page is loaded anew; and marked as shfs stale has it
    study.run("echo 'rate: 9' > config.yaml")
    look(page, f"http://127.0.0.1:{page.served.port}/")
    stale = set(page.run("[...document.querySelectorAll('#picture .stale')].map((n) => n.lastChild.textContent)"))
    assert stale == {"out.csv@2", "top.txt@2"}
    said = sandbox.shfs("stale", check=False).stdout
    assert "out.csv" in said and "top.txt" in said and "fig.png" not in said
    assert "stale" in page.run("document.querySelector('#picture .stale').getAttribute('aria-label')")
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_versions_beside_each_other(page, sandbox):
    page.click("#picture .node", "fig.png@2")
    assert page.text("#details h2") == "fig.png"
    page.click("#details button", "diff")
    page.wait("!!document.querySelector('#details canvas')")
    assert page.run("document.querySelectorAll('#details img').length") == 2
    assert "40 pixels differ" in page.text("#details .pictures")
    page.click("#details button", "image")
    page.wait("document.querySelectorAll('#details img').length === 1")
    # the command that is copied puts it back
    command = page.run("[...document.querySelectorAll('#details button')].find((b) => b.textContent === 'copy restore').title")
    assert command.endswith("/fig.png@2'")
    one = command.replace("fig.png@2", "fig.png@1")
    sandbox.shfs(*shlex.split(one)[1:])
    assert sandbox.read("fig.png") == stripe(100)
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_addresses(page, sandbox):
    base = f"http://127.0.0.1:{page.served.port}/"
    look(page, f"{base}#file={sandbox.project}/top.txt&n=1")
    assert page.text("#graph-of") == "top.txt@1" and page.text("#details h2") == "top.txt"
    page.click("#results")
    assert page.text("#graph-of") == "Latest results"
    one = page.run("shfsMap.model.commands.filter((c) => c.id)[2].id")
    look(page, f"{base}#{one}")
    assert page.text("#details .typed").startswith("sed -i") and not page.text("#graph")
    page.click("#details .link", "config.yaml@2")
    assert "#file=" in page.run("location.hash") and "config.yaml" in page.run("location.hash")
    page.click("#details button", "diff")
    page.wait("!!document.querySelector('#details .added')")
    page.run("[...document.querySelectorAll('#details button')].filter((b) => b.textContent === 'diff')[1].click()")
    page.wait("!!document.querySelector('#details .line.removed')")
    marks = "[...document.querySelectorAll('#details .line mark')].map((m) => [m.parentElement.parentElement.className, m.textContent])"
    assert page.run(marks) == [["line removed", "3"], ["line added", "5"]], "by words"
    nothing_bad(page)
