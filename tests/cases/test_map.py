# SPDX-License-Identifier: MIT
"""map: the page, opened in a browser and clicked through."""

import json
import os
import re
import shlex
import stat

import pytest

import browser as browsers
from analysis import LINES, PROJECT, lay_out
from hostile import BYTES, MARKUP, TERMINAL, UNICODE, encoded

CONFIG = "rate: 3\nmodel: linear\nsteps: 100\n"

# what would do harm where it is not taken for text; each says so if it is executed
HOSTILE = [*MARKUP, *TERMINAL[:5], *UNICODE[:8], *BYTES[:3], "new\nline"]


@pytest.fixture
def study(sandbox, mounted, shell):
    data = "".join(f"{i}\n" for i in range(40))
    lay_out(sandbox, {**PROJECT, "config.yaml": CONFIG, "data/in.csv": data})
    bash = shell()
    for line in LINES:
        bash.run(line)
    return bash


@pytest.fixture
def browser(request, sandbox):
    """What it shows in the end is to be seen in SHFS_TEST_PICTURES."""
    if not browsers.program():
        pytest.skip("there is no Chromium")
    found = browsers.Browser()
    yield found
    if "SHFS_TEST_PICTURES" in os.environ:
        found.picture(os.path.join(os.environ["SHFS_TEST_PICTURES"], f"{request.node.name}.png"))
    found.close()


def make(sandbox, *args, name="map.html"):
    path = os.path.join(sandbox.path, name)
    result = sandbox.shfs("map", "-f", "-o", path, *args, check=False)
    if "built without" in result.stderr:
        pytest.skip("built without the page of the map")
    assert result.status == 0, result
    return path


def embedded(path):
    """The data of a page: docs/map.md."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    return [json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)[1])
            for name in ("data", "contents")]


@pytest.fixture
def page(study, sandbox, browser):
    browser.path = make(sandbox)
    browser.open(browser.path)
    return browser


def click_command(page, text):
    """On its block."""
    page.click_at(*page.run(f"""(() => {{
        const {{model, timeline}} = shfsMap, c = model.commands.find((c) => c.title.includes({json.dumps(text)}));
        const row = timeline.rows.findIndex((r) => r.includes(c.of)), box = timeline.canvas.getBoundingClientRect();
        return [box.x + timeline.view.toX(c.begin) + 1, box.y + 42 + 6 + row * 30 + 15];
    }})()"""))


def nothing_bad(page):
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("data:", "file:"))] == [] and len(
        [url for url in page.requests if url.startswith("file:")]) <= 1


@pytest.mark.users("ordinary")
def test_click_through(page):
    assert "6 commands · 1 session" in page.text("#head")
    assert page.text("#files") == "3 files written here"

    click_command(page, "seed")
    shown = page.text("#details")
    assert "echo 'seed: 1' >> config.yaml" in shown and "\nok\n" in shown and "home/project" in shown
    assert "config.yaml@3" in shown and "from @2" in shown
    page.click("#details button", "diff")
    assert page.run("document.querySelector('#details .added').textContent").endswith("seed: 1")
    assert page.run("document.querySelectorAll('#details .added, #details .removed').length") == 1
    page.click("#details button", "text")
    assert page.run("document.querySelectorAll('#details .line').length") == 4, "one of both is open"

    click_command(page, "nothere")
    assert "exit 1" in page.text("#details .badge")

    # to the file, to a version's maker, and back by the keys
    page.click("#details .link", "top.txt@2")
    assert "top.txt" in page.text("#details h2") and page.text("#details h3") == "2 VERSIONS"
    page.click("#details .link.mono", "sort -rn out.csv")
    assert page.text("#details .typed") == "sh run.sh; sort -rn out.csv > top.txt"
    page.key("ArrowUp")
    assert page.text("#details .typed").startswith("echo 'seed")
    page.key("j")
    page.key("j")
    assert page.text("#details .typed").startswith("false")
    page.key("Escape")
    assert not page.text("#details")

    # a link to a command
    one = page.run("shfsMap.model.commands[2].id")
    page.open(page.path, f"#{one[:8]}")
    assert page.text("#details .typed").startswith("sed -i")
    page.key("Escape")

    # scripts that were only read are there as well
    page.click("#written")
    assert page.text("#files") == "6 files used here"
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_graph(page):
    click_command(page, "; sort")
    page.key("g")
    assert page.text("#graph-of") == "out.csv@2"
    labels = set(page.run("[...document.querySelectorAll('#picture .node')].map((n) => n.lastChild.textContent)"))
    assert {"out.csv@2", "config.yaml@3", "config.yaml@2", "config.yaml@1", "run.sh@1", "model.awk@1", "data/in.csv@1"} <= labels
    assert not {"out.csv@1"} & labels
    page.resize(2600, 900)
    page.settle()
    page.click("#details .link", "top.txt@2")
    page.click("#details button", "Graph of this file")
    page.click("#picture .node", "sed -i")
    assert page.text("#details .typed").startswith("sed -i")
    page.click("#picture .node", "config.yaml@2")
    assert page.text("#details h2") == "config.yaml"
    page.click("#details button", "graph")
    assert page.text("#graph-of") == "config.yaml@3"
    page.key("Escape")
    assert not page.text("#graph") and page.text("#details h2") == "config.yaml"
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_the_address_of_a_file(page):
    """It says what is shown here too: back, and the same in another window."""
    page.click("#tree .row", "top.txt")
    assert page.text("#details h2") == "top.txt"
    page.click("#details button", "graph")
    page.click("#legend button", "Text tools")
    address = page.run("location.hash")
    shown = [page.text(name) for name in ("#graph-of", "#found", "#filter", "#details h2")]
    assert shown[0] == "top.txt@2" and shown[2] == "Filters · 1"
    page.run("history.back()")
    page.settle()
    assert page.text("#filter") == "Filters" and page.text("#graph-of") == "top.txt@2"
    page.run("history.back()")
    page.settle()
    assert not page.text("#graph") and page.text("#details h2") == "top.txt"
    page.run("history.back()")
    page.settle()
    assert not page.text("#details")
    page.open(page.path, address)
    assert [page.text(name) for name in ("#graph-of", "#found", "#filter", "#details h2")] == shown
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_search(page):
    page.key("/")
    page.type("CONFIG")
    assert page.text("#found") == "4 found", "by text, and by the file that they used"
    page.key("Enter")
    assert page.text("#found") == "1 of 4" and page.text("#details .typed") == "sh run.sh"
    page.key("Escape")
    page.key("Escape")
    assert page.text("#found") == ""
    page.key("/")
    page.type("nowhere at all")
    assert page.text("#found") == "none"
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_zoom(page):
    def seen():
        return page.run("shfsMap.timeline.view.window()")

    def span():
        return seen()[1] - seen()[0]

    whole = span()
    page.wheel(800, 180, -300)
    near = span()
    assert near < whole * 0.8
    page.drag(800, 180, -100)
    assert span() == pytest.approx(near, rel=0.3)
    page.key("+")
    assert span() < near
    page.key("0")
    assert span() == pytest.approx(whole)
    page.key("+")
    before = seen()
    page.key("ArrowRight")
    assert seen()[0] > before[0]
    # by the strip above
    page.click_at(300, 70)
    assert seen()[0] < before[0]
    page.click("#fit")
    day = page.run("document.getElementById('from').min")
    page.run(f"(() => {{ const f = document.getElementById('from'); f.value = '{day}'; f.dispatchEvent(new Event('change')); }})()")
    assert span() == pytest.approx(whole, rel=0.05)
    page.click("#idle")
    assert page.run("document.getElementById('idle').getAttribute('aria-pressed')") == "false"
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_dark(page):
    def ground():
        return page.run("[getComputedStyle(document.body).backgroundColor, ...document.getElementById('time')"
                        ".getContext('2d').getImageData(5, 5, 1, 1).data].join()")

    light = ground()
    page.dark()
    assert light.startswith("rgb(255") and ground() != light
    assert max(map(int, re.findall(r"\d+", ground())[3:6])) < 60, "what is drawn, too"
    page.dark(False)
    assert ground() == light


@pytest.mark.users("ordinary")
def test_what_no_shell_ran(study, sandbox, browser):
    sandbox.write("config.yaml", "rate: 7\n")
    study.run(" ls; mv top.txt renamed.txt; ln -s nowhere/at/all link; mkdir made; rm out.csv")
    browser.open(make(sandbox, "--all"))
    assert browser.run("shfsMap.timeline.rows.length") == 2
    assert re.search(r"7 commands · \d+ processes · 1 session", browser.text("#summary"))
    browser.run("shfsMap.timeline.pick({ command: shfsMap.model.commands.findLast((c) => c.pid) })")
    browser.settle()
    assert browser.text("#details .typed") == "cat" and "config.yaml@4" in browser.text("#details")
    browser.run("shfsMap.timeline.pick({ command: shfsMap.model.commands.findLast((c) => c.id) })")
    browser.settle()
    shown = browser.text("#details")
    assert "text not recorded" in shown and "renamed.txt@2" in shown and "from top.txt" in shown and "REMOVED" in shown
    browser.key("g")
    assert "top.txt@2" in browser.run("document.getElementById('picture').textContent")
    nothing_bad(browser)


@pytest.mark.users("ordinary")
def test_hostile(study, sandbox, browser):
    """Names, commands and contents are text, and nothing else."""
    for n, name in enumerate(HOSTILE):
        sandbox.write(b"./" + encoded(f"{n} {name.replace('/', '∕')}"), encoded(name))
        sandbox.write(f"script{n}.sh", encoded(name))
    for name in HOSTILE:
        if name.isprintable():
            study.run(f"cat script*.sh > out; : {shlex.quote(name)}")
    study.run("cat [0-9]* > /dev/null; printf '</script><script>alert(2)</script>' > '<∕script><script>alert(3)<∕script>'")
    path = make(sandbox)
    data, contents = embedded(path)
    assert any(c["text"] and "</script><script>alert(1)" in c["text"] for c in data["commands"])
    assert any("alert(2)" in text for text in contents)
    assert "\udcff\udc80" in contents
    with open(path, "rb") as file:
        raw = file.read().split(b'id="data">')[1].split(b"<script>")[0]
    assert not re.search(rb"[<>&]", re.sub(rb"</script>\n<script[^>]*>|</script>\n$", b"", raw)), "escaped, all of it"
    assert b"\xe2\x80\xa8" not in raw and b"\xe2\x80\xa9" not in raw

    browser.open(path)
    assert browser.run("document.scripts.length") == 4 and browser.run("document.images.length") == 0
    browser.click("#written")
    for n in range(browser.run("shfsMap.model.commands.length")):
        browser.key("ArrowDown")
        for text in ("text", "diff"):
            if text in browser.text("#details"):
                browser.click("#details button", text)
    for name in ("alert(3)", "1 <!--<script>", "\\x1b[31mred", "\\u{202e}gnp.exe", "\\xff\\x80", "a\\u{2028}b"):
        name = name.replace("\\x1b", "\\e")
        assert browser.run(f"shfsMap.model.paths.some((_, p) => shfsMap.model.short(p).includes({json.dumps(name)}))"), name
    browser.run("shfsMap.model.paths.forEach((_, p) => shfsMap.model.numbersOf(p).length && shfsMap.graph.show(p, shfsMap.model.numbersOf(p)[0]))")
    assert "\u202e" not in browser.text("body") and "\x1b" not in browser.text("body")
    made = ("[...document.querySelectorAll('*')].filter((e) => /^(IFRAME|IMG|OBJECT|EMBED|MATH|FORM|BASE|META|LINK)$/.test(e.tagName) && !e.closest('head')"
            " || [...e.attributes].some((a) => /^on|^srcdoc/.test(a.name) || /^(href|src|action)$/.test(a.name) && /^\\s*javascript:/i.test(a.value)))")
    assert browser.run(f"{made}.map((e) => e.outerHTML).join()") == ""
    # what got in all the same would not run, nor find the way out
    browser.run("document.body.append(document.createElement('script'))")
    nothing_bad(browser)
    assert browser.run("new Promise((done) => { try { document.body.innerHTML = '<b>'; done('set'); } catch { done('refused'); } })") == "refused"
    assert browser.run("fetch('http://127.0.0.1:9/').then(() => 'went', () => 'refused')") == "refused"
    assert browser.run("new Promise((done) => { const i = new Image(); i.onload = () => done('went'); i.onerror = () => done('refused');"
                       " i.src = 'http://127.0.0.1:9/x.png'; })") == "refused"


@pytest.mark.users("ordinary")
def test_many(study, sandbox, browser):
    """20,000 commands, each with some files."""
    path = make(sandbox)
    data, contents = embedded(path)
    one, begin = data["commands"][0], data["made"]
    data["paths"] = [f"/p/data/{i % 50}/file-{i}.csv" for i in range(5000)]
    data["sessions"] = [{**data["sessions"][0], "id": f"{i:016x}"} for i in range(400)]
    data["versions"] = []
    data["commands"] = [
        {**one, "id": f"{i:016x}", "session": i // 50, "begin": begin - i * 30_000_000 - (i // 50) * 3_600_000_000,
         "end": begin - i * 30_000_000 - (i // 50) * 3_600_000_000 + 900_000, "text": f"sort data-{i}.csv > sorted-{i}.csv",
         "uses": [x for k in range(8) for x in (0 if k < 2 else 7, (i * 7 + k * 31) % 5000, 0 if k < 2 else 1, i // 400 + 1 if k < 2 else 0, -1, 0)]}
        for i in range(20000)]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    page = re.sub(r'(id="data">).*?(</script>)', lambda m: m[1] + json.dumps(data) + m[2], page, count=1, flags=re.S)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    browser.open(path)
    assert "20,000 commands · 400 sessions" in browser.text("#head")
    browser.key("/")
    browser.type("data-12345.")
    browser.key("Enter")
    assert browser.text("#found") == "1 of 1" and "data-12345.csv" in browser.text("#details .typed")
    assert browser.run("shfsMap.timeline.files.rows.length") > 1
    assert browser.run("document.querySelectorAll('*').length") < 400, "what is not seen is not there"
    nothing_bad(browser)


# --- the data ---


@pytest.mark.users("ordinary")
def test_data(study, sandbox):
    """Its form, which docs/map.md tells, against history's."""
    data, contents = embedded(make(sandbox))
    history = json.loads(sandbox.shfs("history", "--json").stdout)["commands"]
    assert (data["shfs"], data["version"], data["cut"]) == ("map", 1, False)
    assert [c["id"] for c in data["commands"]] == [c["id"] for c in history]
    assert [c["text"] for c in data["commands"]] == [c["text"] for c in history]
    for mine, other in zip(data["commands"], history):
        uses = [mine["uses"][k:k + 6] for k in range(0, len(mine["uses"]), 6)]
        assert [(data["kinds"][u[0]], data["paths"][u[1]], u[2], u[3]) for u in uses] == [
            (f["use"], f["path"], f.get("read", 0), f.get("made", 0)) for f in other["files"]]
        assert data["directories"][mine["cwd"]] == other["cwd"] and mine["status"] == other["status"]
    versions = {(os.path.basename(data["paths"][v[0]]), v[1]): v for v in data["versions"]}
    assert contents[versions["config.yaml", 1][5]] == CONFIG
    assert contents[versions["config.yaml", 3][5]] == CONFIG.replace("3", "5") + "seed: 1\n"
    assert versions["config.yaml", 1][3] == len(CONFIG)
    assert [s["shell"] for s in data["sessions"]] == ["bash"]


@pytest.mark.users("ordinary")
def test_what_is_embedded(study, sandbox):
    study.run("head -c 70000 /dev/zero | tr '\\0' x > large; head -c 200 /dev/zero > zeros; echo SECRET=1 > .env; echo y > small")
    path = make(sandbox)
    data, contents = embedded(path)
    versions = {os.path.basename(data["paths"][v[0]]): v for v in data["versions"] if v[1] == 1}
    assert contents[versions["small"][5]] == "y\n"
    assert [versions[name][5] for name in ("large", "zeros", ".env")] == [-1, -1, -1]
    assert data["reasons"][versions[".env"][6]] and data["contents_left_out"] == 1
    with open(path, encoding="utf-8") as file:
        assert "SECRET=1\n" not in file.read().replace("\\n", "\n").split('id="contents"')[1]

    data, contents = embedded(make(sandbox, "--no-contents"))
    assert contents == [] and {v[5] for v in data["versions"]} == {-1}


@pytest.mark.users("ordinary")
@pytest.mark.parametrize(
    "options, texts",
    [
        (["-n", "1"], ["false"]),
        (["--failed"], ["false"]),
        (["--wrote", "config.yaml"], ["echo", "sed"]),
        (["--grep", "seed"], ["echo"]),
        (["top.txt"], ["false", "sh run.sh; sort", "sort"]),
        (["--until", "yesterday"], []),
    ],
)
def test_filters(study, sandbox, options, texts):
    data, _ = embedded(make(sandbox, *options))
    commands = [c["text"] for c in data["commands"] if c["id"]]
    assert len(commands) == len(texts)
    assert all(command.startswith(text) for command, text in zip(commands, texts))
    assert data["cut"] == (options[0] == "-n")


def test_the_file(study, sandbox, shfs):
    path = make(sandbox)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    refused = shfs("map", "-o", path, check=4)
    assert "--force" in refused.stderr
    assert shfs("map").stdout.startswith("<!DOCTYPE html>")
    assert "a page for a browser" in study.run("shfs map")
    assert shfs("map", "--limit", "0", "-o", path, check=2)
    assert shfs("map", "-o", os.path.join(sandbox.path, "no/where"), check=1)
    assert "No space left" in shfs("map", "-f", "-o", "/dev/full", check=1).stderr and os.path.exists("/dev/full")
    assert "never seen" in shfs("map", "nowhere", check=3).stderr
    for licence in ("d3-zoom", "diff", "@dagrejs/dagre"):
        with open(path, encoding="utf-8") as file:
            assert f"\n{licence} " in file.read()


@pytest.mark.users("ordinary")
def test_no_commands(mounted, sandbox, browser, shell):
    shell().run("true")
    browser.open(make(sandbox))
    assert "No commands" in browser.text("#stage")
    nothing_bad(browser)


@pytest.mark.users("ordinary")
def test_on_a_phone(study, sandbox, browser):
    """All that is said can be read, and details leave half of the page to what they are of."""
    path = make(sandbox, "-n", "2")
    browser.resize(390, 844)
    try:
        browser.open(path)
        box = "(s) => { const b = document.querySelector(s).getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"
        assert "earlier ones are not in this map" in browser.text("#cut")
        browser.run("window.shfsMap.timeline.canvas.focus()")
        browser.key("ArrowDown")
        assert browser.text("#details")
        left, top, right, bottom = browser.run(f"({box})('#details')")
        stage = browser.run(f"({box})('#stage')")
        assert (left, right) == (0, 390) and top >= 420 and bottom <= 844, (left, top, right, bottom)
        assert stage[3] - stage[1] > 200 and stage[3] <= top, stage
        for name in "#search", "#summary", "#fit", "#keys", "#cut":
            b = browser.run(f"({box})('{name}')")
            assert 0 <= b[0] < b[2] <= 390, (name, b)
        assert browser.run("document.documentElement.scrollWidth") <= 390
        if os.environ.get("SHFS_TEST_PICTURE"):
            browser.picture(os.environ["SHFS_TEST_PICTURE"])
    finally:
        browser.resize(1440, 900)


@pytest.mark.users("ordinary")
def test_notes(study, browser, sandbox):
    """Of what is on the page, and of nothing else."""
    study.run("mkdir other; echo x > other/secret")
    study.run("cat other/secret > other/more")
    first = json.loads(sandbox.shfs("history", "--json").stdout)["commands"][-1]
    sandbox.shfs("note", "-t", "begin", first["id"], "where it</script>", "began")
    sandbox.shfs("note", "top.txt@1", "the first result")
    sandbox.shfs("note", "other/more@1", "of another part")
    data = embedded(make(sandbox, "top.txt"))[0]
    assert [[data["paths"][note[0]], *note[1:]] for note in data["notes"]] == [[f"{sandbox.project}/top.txt", 1, "the first result", []]]
    page = make(sandbox)
    with open(page, encoding="utf-8") as file:
        assert "it</script>" not in file.read()
    browser.open(page, f"#{first['id']}")
    assert browser.text("#details .noted") == "#begin where it</script> began"
    browser.open(page, f"#file={sandbox.project}/top.txt")
    assert "the first result" in browser.text("#details .uses")
    browser.open(page, "#find=%23begin")
    assert browser.text("#found") == "1 found"
    assert browser.errors == []
