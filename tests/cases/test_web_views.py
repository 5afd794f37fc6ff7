# SPDX-License-Identifier: MIT
"""web: the tree of files, filters, addresses and tables of the page, against what shfs says with --json."""

import collections
import csv
import io
import itertools
import json
import os
import random

import pytest

import harness
from harness import seeds
from webs import ALL, known, look, nothing_bad, page, served, study  # noqa: F401

WRITES = {"wrote", "changed", "renamed", "linked", "removed"}
SIZES = [(1280, 800), (390, 844)]
# each size light and dark by ./dev test --all
LOOKS = list(itertools.product(SIZES, (False, True))) if harness.ALL else list(zip(SIZES, (False, True)))
AXE = os.path.join(os.path.dirname(__file__), "../../map/node_modules/axe-core/axe.min.js")
# letters need 4.5 to 1: WCAG 2.2, 1.4.3
CONTRAST = """
(() => {
    const ctx = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const light = (colour) => {
        ctx.fillStyle = colour;
        ctx.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...ctx.getImageData(0, 0, 1, 1).data].map((n) => n / 255).map((n) => n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = light(getComputedStyle(document.body).backgroundColor);
    return [...document.querySelectorAll('#legend .swatch')].map((s) => light(getComputedStyle(s).backgroundColor))
        .map((found) => (Math.max(found, ground) + 0.05) / (Math.min(found, ground) + 0.05));
})()
"""


def everything(sandbox, *args):
    return json.loads(sandbox.shfs("history", "--json", "--limit", "5000", *args, sandbox.project).stdout)["commands"]


def history(sandbox, *args):
    return [c for c in everything(sandbox, *args) if c["id"]]


def timeline(page):
    base = f"http://127.0.0.1:{page.served.port}/"
    known(page)
    look(page, f"{base}#view=time")
    return base


def rows(page):
    """(level, name, how many files; None: a file), of the tree alone."""
    return [tuple(row) for row in page.run(
        "shfsMap.timeline.files.rows.filter((r) => !r.pinned).map((r) => r.rest ? [r.level, 'rest', r.rest.length]"
        " : r.dir ? [r.level, r.label, r.n] : [r.level, shfsMap.model.short(r.path).split('/').at(-1), null])")]


def seen(page):
    return page.run("[...document.querySelectorAll('#tree .row:not(.pinned)')].map((r) => r.innerText.split('\\n'))")


def choose(page, name, value):
    page.run(f"(() => {{ const s = document.getElementById('{name}'); s.value = {json.dumps(value)};"
             " if (s.value !== " + json.dumps(value) + ") throw new Error('no such choice'); s.dispatchEvent(new Event('change')); })()")
    page.settle()


def matched(page):
    return set(page.run("[...(shfsMap.timeline.state.matches ?? [])].map((i) => shfsMap.model.commands[i].id).filter(Boolean)"))


# --- the tree ---


@pytest.fixture
def many(study):
    study.run("mkdir -p deep/er/est other/a other/b; for i in $(seq 130); do echo $i > deep/er/est/f$i; done; for i in 1 2 3; do echo $i > other/a/x; echo > other/b/y$i; done")
    study.run("echo again > deep/er/est/f7; rm other/b/y2; cat other/a/x > /dev/null")


@pytest.mark.users("ordinary")
def test_tree(many, page, sandbox):
    timeline(page)
    uses = collections.Counter(os.path.relpath(f["path"], sandbox.project) for c in everything(sandbox) for f in c["files"] if f["use"] in WRITES)
    written = set(uses)
    assert "deep/er/est/f130" in written
    # what has one directory alone in it is one row; a directory that is too long is folded at first
    here = rows(page)
    assert (1, "deep/er/est", 130) in here and (1, "other", 4) in here and not [r for r in here if r[1] == "f1"]
    assert [["deep/er/est/", "130"], ["other/", "4"]] == [row for row in seen(page) if row[0] in ("deep/er/est/", "other/")]
    page.click("#tree .row", "deep/er/est/")
    assert (2, "rest", 30) in rows(page) and ["30 more files"] not in seen(page), "what is not seen is not there"
    assert page.run("document.querySelectorAll('#tree .row').length") < 60
    # by the keys: to the row that says what is cut, and all of it
    page.key("Home")
    for _ in range(page.run("shfsMap.timeline.files.rows.findIndex((r) => r.rest)")):
        page.key("ArrowDown")
    assert page.run("document.activeElement.innerText").strip() == "30 more files"
    page.key("Enter")
    leaves = [name for _, name, n in rows(page) if n is None]
    assert sorted(leaves) == sorted(os.path.basename(path) for path in written)
    # how much happened in each of the rows
    counted = page.run("""shfsMap.timeline.files.rows.filter((r) => !r.pinned).map((r) => [
        r.dir ? r.dir.key.replace(shfsMap.model.root, '') : shfsMap.model.short(r.path),
        shfsMap.timeline.files.tree.strip(r).writes.reduce((a, b) => a + b, 0)])""")
    assert len(counted) == len(rows(page))
    for name, n in counted:
        assert n == sum(k for path, k in uses.items() if path == name or path.startswith(name.rstrip("/") + "/")), name
    # folded again from within
    page.key("ArrowLeft")
    assert page.run("document.activeElement.innerText").startswith("deep/er/est/")
    page.key("ArrowLeft")
    assert not [r for r in rows(page) if r[1] == "f1"]
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.key("ArrowRight")
    page.key("ArrowRight")
    page.key("Enter")
    assert page.text("#details h2") == "f1"
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_strips(page):
    """They are drawn where the time is, and a click on one shows its command."""
    timeline(page)
    at = page.run("""(() => {
        const { files, view, filesTop, canvas } = shfsMap.timeline, box = canvas.getBoundingClientRect();
        const i = files.rows.findIndex((r) => r.path !== undefined && shfsMap.model.short(r.path) === 'top.txt');
        const c = shfsMap.model.commands.find((c) => c.title.startsWith('sort'));
        return [box.x + view.toX(c.begin) + 2, box.y + filesTop + i * 24 - files.scroll + 14];
    })()""")
    drawn = page.run(f"""(() => {{ const c = shfsMap.timeline.canvas, b = c.getBoundingClientRect();
        return [...c.getContext('2d').getImageData({at[0]} - b.x - 8, {at[1]} - b.y - 14, 14, 24).data].filter((_, i) => i % 4 < 3); }})()""")
    assert len(set(drawn)) > 4
    page.click_at(*at)
    assert page.text("#details .typed").startswith("sort -rn out.csv")
    nothing_bad(page)


# --- filters, colours ---


@pytest.mark.users("ordinary")
def test_filters_of_the_page(study, page, sandbox):
    study.run("mkdir sub; cd sub; git --version; python3 --version > v.txt; cd ..")
    study.run("cd sub; cat v.txt nothere > w.txt")
    study.run("(exit 7) > seven")
    timeline(page)
    page.click("#filter")
    for value, wanted in [("ok", ["--status", "0"]), ("failed", ["--failed"]), ("7", ["--status", "7"])]:
        choose(page, "f-status", value)
        assert matched(page) == {c["id"] for c in history(sandbox, *wanted)} != set(), value
        assert page.text("#filter") == "Filters · 1" and f"status={value}" in page.run("location.hash")
        assert page.text("#found") == f"{len(matched(page))} found"
    choose(page, "f-in", f"{sandbox.project}/sub")
    assert matched(page) == {c["id"] for c in history(sandbox) if c["cwd"].startswith(f"{sandbox.project}/sub") and c["status"] == 7}
    choose(page, "f-status", "")
    assert matched(page) == {c["id"] for c in history(sandbox) if c["cwd"].startswith(f"{sandbox.project}/sub")} != set()
    files = {os.path.relpath(f["path"], f"{sandbox.project}") for c in history(sandbox) if c["id"] in matched(page) for f in c["files"] if f["use"] in WRITES}
    assert {f"sub/{name}" for _, name, n in rows(page) if n is None} == files
    page.click("#f-clear")
    assert page.text("#filter") == "Filters" and page.text("#found") == ""

    # kinds of programs, by the legend
    def kind(text):
        return page.run(f"shfsMap.model.commands.find((c) => c.title.startsWith({json.dumps(text)})).kindOf")
    kinds = [kind(text) for text in ("sh run.sh", "sort -rn", "mkdir sub; cd sub; git", "echo 'seed")]
    assert len({kinds[1], kinds[2], kinds[3]}) == 3 and kinds[0] == kinds[3]
    page.click("#legend button", "Text tools")
    texts = {c["text"] for c in history(sandbox) if c["id"] in matched(page)}
    assert {"sort -rn out.csv > top.txt", "sed -i 's/rate: 3/rate: 5/' config.yaml"} <= texts and "(exit 7) > seven" not in texts
    assert not any(text.startswith("mkdir sub") for text in texts)
    page.click("#results")
    assert page.text("#graph-of") == "Latest results"
    assert "fig.png@2" not in page.run("document.getElementById('picture').textContent"), "cat made it"
    page.click("#legend button", "Text tools")
    assert "fig.png@2" in page.run("document.getElementById('picture').textContent")

    # stale ones
    study.run("echo 'rate: 9' > config.yaml")
    timeline(page)
    stale = {(r["path"], r["n"]) for c in json.loads(sandbox.shfs("stale", "--json", check=False).stdout)["commands"] for r in c["results"]}
    makers = {c["id"] for c in history(sandbox) for f in c["files"] if (f["path"], f.get("made")) in stale}
    page.click("#filter")
    page.click("#f-stale")
    assert matched(page) == makers != set()
    page.click("#f-stale")
    choose(page, "f-colour", "stale")
    assert page.text("#legend").strip().startswith("What it made is stale") and "colour=stale" in page.run("location.hash")
    assert page.run("shfsMap.model.commands.filter((c) => c.stale === 0 && c.id).length") == len(makers)
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_hosts(page):
    """One is no choice; of two, each is one."""
    timeline(page)
    page.click("#filter")
    assert not page.text("#f-host")
    look(page, f"http://127.0.0.1:{page.served.port}/#view=time&host=elsewhere")
    assert page.text("#found") == "none" and page.text("#filter") == "Filters · 1"
    page.run("document.getElementById('f-host').closest('label').hidden === false || (() => { throw new Error('hidden') })()")
    host = page.run("shfsMap.model.sessions[0].host")
    choose(page, "f-host", host)
    assert matched(page) == set(page.run("shfsMap.model.commands.filter((c) => c.id).map((c) => c.id)"))
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_colours_can_be_read(study, page):
    for line in ("python3 -c 1", "make --version", "git --version", "curl --version", "vim --version", "sort /dev/null", "true", "./own"):
        study.run(f"{line} > out.txt")
    known(page)
    for dark in False, True:
        page.dark(dark)
        for colour, n in (("", 8), ("stale", 2)):
            look(page, f"http://127.0.0.1:{page.served.port}/#view=time{colour and '&colour=' + colour}")
            found = page.run(CONTRAST)
            assert len(found) >= n and min(found) >= 4.5, (dark, colour, found)
    page.dark(False)


# --- addresses ---


class Window(list):
    """A part of time, in milliseconds; of the same as another one, if it is to be seen."""

    def __eq__(self, other):
        return len(self) == len(other) and all(abs(a - b) < 0.1 for a, b in zip(self, other))


def state(page):
    page.run("new Promise((done) => setTimeout(done, 500))")  # what moves is said when it has come to rest
    page.settle()
    names = ["#details h2", "#details .typed", "#graph-of", "#filter", "#found", "#files"]
    return [page.run("location.hash"), *[page.text(name) for name in names], page.run("document.getElementById('search').value"),
            Window(page.run("shfsMap.timeline.view.window().map((us) => us / 1000)")), page.run("document.getElementById('idle').getAttribute('aria-pressed')")]


@pytest.mark.users("ordinary")
def test_back_forth_and_anew(page):
    steps = [
        lambda: page.click("#picture .node", "fig.png@2"),
        lambda: page.click("#details button", "graph"),
        lambda: page.click("#graph-close"),
        lambda: page.click("#tree .row", "top.txt"),
        lambda: page.click("#details .link.mono", "sort -rn"),
        lambda: page.click("#legend button", "Text tools"),
        lambda: (page.click("#search"), page.type("config")),
        lambda: page.click("#idle"),
        lambda: page.click("#written"),
        lambda: page.click("#results"),
    ]
    was = [state(page)]
    assert was[0][0] == "" and was[0][3] == "Latest results"
    for step in steps:
        step()
        was.append(state(page))
    assert len({tuple(map(str, one)) for one in was}) == len(was) and len({one[0] for one in was}) == len(was)
    for one in reversed(was[:-1]):
        page.run("history.back()")
        page.settle()
        assert state(page) == one
    for one in was[1:]:
        page.run("history.forward()")
        page.settle()
        assert state(page) == one
    for one in was if harness.ALL else was[1::3]:
        look(page, f"http://127.0.0.1:{page.served.port}/{one[0]}")
        assert state(page) == one
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_moments(page, sandbox):
    base = timeline(page)
    for key in "+", "+", "ArrowLeft":
        page.key(key)
    there = state(page)
    assert "from=20" in there[0] and "to=20" in there[0]
    page.key("0")
    assert "from=" not in state(page)[0]
    look(page, f"{base}{there[0]}")
    assert state(page) == there
    # what is not there is said
    for asked in "command=0123456789abcdef", f"file={sandbox.project}/nothere", f"file={sandbox.project}/top.txt&n=77":
        look(page, f"{base}#{asked}")
        assert "not in what was recorded" in page.text("#lost"), asked
        assert page.run("location.hash") == f"#{asked}"
    look(page, f"{base}#view=time&from=x&to=2020-01-01")
    assert not page.text("#lost")
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_addresses_of_any_names(study, page, sandbox):
    names = [b"a b&c=d#e?f", b"per%41cent+plus", "ünï – ⁂".encode(), b"not\xff\xfeutf", b"at@3"]
    for name in names:
        sandbox.write(os.fsencode(sandbox.project) + b"/" + name, b"x\n")
        study.run("cat ./" + "".join(f"$'\\x{b:02x}'" for b in name) + f" > made{names.index(name)}")
    base = timeline(page)
    for path in page.run("shfsMap.model.paths.map((p, i) => [p, i]).filter(([p, i]) => shfsMap.model.numbersOf(i).length).map(([, i]) => i)"):
        page.run(f"shfsMap.timeline.pick({{ path: {path} }})")
        name, hash_ = page.run(f"shfsMap.model.short({path})"), page.run("location.hash")
        look(page, f"{base}{hash_}")
        assert page.text("#details h2") == name.split("/")[-1] and page.run("location.hash") == hash_
        page.run(f"shfsMap.go.graph({path}, shfsMap.model.numbersOf({path})[0])")
        hash_ = page.run("location.hash")
        look(page, f"{base}{hash_}")
        assert page.text("#graph-of").startswith(f"{name}@") and page.run("location.hash") == hash_
    assert {"not\\xff\\xfeutf", "a b&c=d#e?f"} <= set(page.run("shfsMap.model.paths.map((_, i) => shfsMap.model.short(i))"))
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_what_comes_in_parts(page, sandbox):
    """The address and the filters are right, however little of it is there at first."""
    base = timeline(page)
    known(page)
    everywhere = history(sandbox)
    moment = page.run("new Date(shfsMap.model.commands[0].begin / 1000).toISOString()")
    # the first answer has two commands, the next ones three
    page.ask("Page.addScriptToEvaluateOnNewDocument", source="""
        const real = fetch;
        globalThis.asked = 0;
        fetch = (url, ...more) => (asked++, real(url.replace(/limit=\\d+/, `limit=${asked > 1 ? 3 : 2}`), ...more));
    """)
    for c in everywhere[-1], everywhere[0]:
        look(page, f"{base}#command={c['id']}")
        assert page.run("asked") > 4
        assert page.text("#details .typed") == c["text"] and page.run("location.hash").startswith(f"#command={c['id']}")
        assert not page.text("#lost")
    look(page, f"{base}#view=time&status=failed")
    assert matched(page) == {c["id"] for c in everywhere if c["status"]} != set()
    assert page.text("#found") == f"{len(matched(page))} found"
    look(page, f"{base}#view=time&file={sandbox.project}/config.yaml&n=1")
    assert page.text("#graph-of") == "config.yaml@1"
    look(page, f"{base}#view=time&from={moment}&to=2100-01-01")
    assert page.run("shfsMap.timeline.view.window()[0] / 1000 - shfsMap.model.commands[0].begin / 1000") < 1
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_what_is_not_loaded(study, page):
    """It is drawn, said, and loaded once one goes there; with holes in between, nothing is lost or twice there."""
    for n in range(12):
        study.run(f"echo {n} > later{n}; sleep 0.4")
    base = timeline(page)
    known(page)
    look(page, base)
    whole, n = page.run(ALL), page.run("shfsMap.model.commands.length")
    # first two, then three at once, and no more than these by itself
    page.ask("Page.addScriptToEvaluateOnNewDocument", source="""
        const real = fetch;
        globalThis.asked = 0;
        fetch = (url, ...more) => (asked++, real(url.replace(/limit=\\d+/, `limit=${url.includes('until') ? 3 : url.includes('since') ? 100 : 2}`), ...more));
        Object.defineProperty(Object.prototype, 'most', { configurable: true, set(value) {
            Object.defineProperty(this, 'most', { value: value === 20000 ? 4 : value, writable: true, enumerable: true });
        } });
    """)
    look(page, f"{base}#view=time")
    assert page.run("[shfsMap.model.commands.length, shfsMap.model.missing()]") == [5, n - 5]
    assert page.text("#cut").startswith(f"5 of {n} commands and processes are loaded.")
    page.run("document.getElementById('search').focus(), 1")
    page.type("later")
    assert "in what is here" in page.text("#found")
    page.run("document.getElementById('search').value = '', document.getElementById('search').dispatchEvent(new Event('input')), 1")
    # the first of them, by the strip
    box = page.run("(({x, y}) => [x, y])(document.getElementById('overview').getBoundingClientRect())")
    page.click_at(box[0] + page.run("shfsMap.timeline.left") + 3, box[1] + 12)
    page.wait("!shfsMap.model.missing(...shfsMap.timeline.view.window()) && shfsMap.model.commands.length > 5")
    loaded = page.run("shfsMap.model.commands.length")
    assert loaded < n and f"{loaded} of {n} commands and processes are loaded." in page.text("#cut")
    first = page.run("shfsMap.model.commands[0].id")
    assert first == whole["commands"][0][0]
    # what is done meanwhile, too
    study.run("echo meanwhile > meanwhile.txt")
    page.wait("shfsMap.model.commands.at(-1).title === 'echo meanwhile > meanwhile.txt' && shfsMap.model.commands.at(-1).end !== null")
    assert page.run("shfsMap.model.missing()") == n - loaded
    page.click("#fit")
    page.wait("document.getElementById('cut').hidden")
    there = page.run(f"shfsMap.settled().then(() => {ALL})")["commands"]
    assert [c for c, old in zip(there, whole["commands"]) if c != old] == [] and len(there) == n + 1
    assert not page.run("shfsMap.model.missing()")
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_earlier_commands_that_cannot_be_had(page):
    """A button that is pressed in vain says why."""
    page.run("shfsMap.model.data.cut = true, shfsMap.model.data.holes.push({since: 0n, until: 1n}), globalThis.fetch = async () => { throw new Error('nobody answers') }, 1")
    page.run("document.getElementById('earlier').click(), 1")
    page.wait("!document.getElementById('gaps').hidden")
    assert page.text("#gaps") == "Not all of it could be loaded: nobody answers"
    nothing_bad(page)


# --- the workflow ---


@pytest.mark.users("ordinary")
def test_fold_the_workflow(study, page, sandbox):
    study.run("printf '%%PDF-1.4\\n' > paper.pdf; cat top.txt paper.pdf > thesis.pdf")
    known(page)
    look(page, f"http://127.0.0.1:{page.served.port}/#file={sandbox.project}/top.txt&n=2")

    def names():
        return set(page.run("[...document.querySelectorAll('#picture .node')].map((n) => n.lastChild.textContent)"))
    whole = names()
    assert {"top.txt@2", "run.sh@1", "config.yaml@3", "config.yaml@1", "thesis.pdf@1"} <= whole
    page.run("[...document.querySelectorAll('.fold')].find((f) => f.getAttribute('aria-label').startsWith('Hide what sh run.sh; sort')).focus()")
    page.key("Enter")
    folded = names()
    assert folded < whole and "config.yaml@3" not in folded and {"top.txt@2", "thesis.pdf@1"} <= folded
    assert page.run("document.activeElement.getAttribute('aria-label')").startswith("Show what sh run.sh; sort")
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.key("Enter")
    assert names() == whole
    # by a click, what was made of it
    page.run("[...document.querySelectorAll('.fold')].find((f) => f.getAttribute('aria-label').startsWith('Hide what printf') && f.getAttribute('aria-label').endsWith('made')).dispatchEvent(new MouseEvent('click'))")
    page.settle()
    assert "thesis.pdf@1" not in names() and "top.txt@2" in names()
    page.wait("!!document.querySelector('#picture')")
    page.click("#results")
    page.wait("[...document.querySelectorAll('#picture .first')].some((e) => e.textContent.startsWith('PDF, '))")
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_words(study, page, sandbox):
    """Lines that take the place of others say which words differ, also where these are more."""
    study.run("echo 'rate: 9' > config.yaml")
    known(page)
    look(page, f"http://127.0.0.1:{page.served.port}/#view=time&file={sandbox.project}/config.yaml")
    page.click("#details button", "diff")
    page.wait("!!document.querySelector('#details .line.removed')")
    assert page.run("document.querySelectorAll('#details .line.removed').length") == 3
    assert page.run("[...document.querySelectorAll('#details .line mark')].map((m) => m.textContent)") == ["5", "9"]
    nothing_bad(page)


# --- tables ---


def table(rng):
    """A random table, another one, and what differs: by column, the values before and after by key."""
    columns = ["id", *rng.sample(["rate", "note", "when", "a,b", 'q"q', "ü"], 3)]
    cell = lambda: rng.choice(["1", "2.5", "-3e4", "", "x y", 'say "no"', "a,b", "two\nlines", "<b>", "é"])  # noqa: E731
    old = [[str(i), *[cell() for _ in columns[1:]]] for i in rng.sample(range(1000), rng.randint(6, 30))]
    new = [list(row) for row in old]
    gone = [new.pop(rng.randrange(len(new)))[0] for _ in range(rng.randint(0, 2))]
    changes = {}
    for _ in range(rng.randint(1, 5)):
        row, k = rng.choice(new), rng.randrange(1, len(columns))
        before = next(r for r in old if r[0] == row[0])[k]
        row[k] = f"new {rng.random():.6f}"
        changes[row[0], columns[k]] = (before, row[k])
    added = [str(n) for n in range(2000, 2000 + rng.randint(0, 3))]
    for key in added:
        new.insert(rng.randint(0, len(new)), [key, *[cell() for _ in columns[1:]]])

    def text(rows_):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([columns, *rows_])
        return out.getvalue()
    return text(old), text(new), changes, gone, added


@pytest.mark.users("ordinary")
def test_tables(study, page, sandbox):
    cases = [table(random.Random(seed)) for seed in seeds(6, 200)]
    for i, (old, new, *_) in enumerate(cases):
        sandbox.write("old", old)
        sandbox.write("new", new)
        study.run(f"cat old > t{i}.csv")
        study.run(f"cat new > t{i}.csv")
    base = timeline(page)
    for i, (_, _, changes, gone, added) in enumerate(cases):
        look(page, f"{base}#view=time&file={sandbox.project}/t{i}.csv")
        page.click("#details button", "diff")
        page.wait("!!document.querySelector('#details table')")
        names, *found = page.run("""[...document.querySelectorAll('#details tr')].map((r) => [r.className,
            ...[...r.children].map((c) => [c.textContent, c.className, c.querySelector('del')?.textContent ?? '', c.querySelector('ins')?.textContent ?? ''])])""")
        columns = [name for name, *_ in names[1:]]
        assert {(r[2][0], columns[k]): (c[2], c[3]) for r in found if r[0] == "changed" for k, c in enumerate(r[1:]) if c[1] == "changed"} == changes
        assert sorted(r[2][2] for r in found if r[0] == "removed") == sorted(gone)
        assert sorted(r[2][3] for r in found if r[0] == "added") == sorted(added)
        assert f"{len(changes)} cell" in page.text("#details .tables p")
        page.click("#details summary", "by lines")
        page.wait("!!document.querySelector('#details .line.added')")
    nothing_bad(page)


@pytest.mark.users("ordinary")
def test_large_tables(study, page, sandbox):
    """What is cut is said; what is no table is compared by lines."""
    study.run("seq 1000 | sed 's/$/,1/' > long.csv; sed -i 's/,1$/,2/' long.csv; echo 'a,\"b' > no.csv")
    study.run("sed -i 's/,1$/,2/' long.csv; echo 'a,\"c' > no.csv")
    study.run("sed -i 's/,2$/,3/' long.csv; printf 'k\\tv\\n1\\t2\\n' > tabs.tsv")
    study.run("printf 'k\\tv\\tw\\n1\\t2\\t3\\n' > tabs.tsv")
    base = timeline(page)
    look(page, f"{base}#view=time&file={sandbox.project}/long.csv")
    page.click("#details button", "diff")
    page.wait("!!document.querySelector('#details table')")
    assert "1,000 cells changed" in page.text("#details .tables") and "not shown: 700 more rows that differ" in page.text("#details .tables")
    assert page.run("document.querySelectorAll('#details tbody tr').length") == 300
    look(page, f"{base}#view=time&file={sandbox.project}/no.csv")
    page.click("#details button", "diff")
    page.wait("!!document.querySelector('#details .line.added')")
    assert not page.run("!!document.querySelector('#details table')")
    look(page, f"{base}#view=time&file={sandbox.project}/tabs.tsv")
    page.click("#details button", "diff")
    page.wait("!!document.querySelector('#details .tables')")
    assert "1 column added: w" in page.text("#details .tables")
    nothing_bad(page)


# --- notes ---


@pytest.mark.users("ordinary")
def test_notes_and_tags(study, page, sandbox):
    """They stand where they belong, and the search finds them."""
    c = next(c for c in history(sandbox) if c["text"].startswith("sort -rn out.csv"))
    sandbox.shfs("note", "-t", "good", c["id"], "the <b>right</b>", "one")
    sandbox.shfs("note", "-t", "fig2", "fig.png@1", "for the poster")
    sandbox.shfs("note", "-t", "old", "config.yaml@1")
    base = timeline(page)
    page.wait("shfsMap.model.noteOf(shfsMap.model.paths.findIndex((p) => p.endsWith('/fig.png')), 1)?.note === 'for the poster'")
    makers = {c["id"] for c in history(sandbox) for f in c["files"] if (f["path"], f.get("made")) == (f"{sandbox.project}/fig.png", 1)}
    users = {c["id"] for c in history(sandbox) for f in c["files"] if f["path"] == f"{sandbox.project}/config.yaml" and 1 in (f.get("made"), f.get("read"))}
    assert makers and users
    for query, wanted in ("RIGHT", {c["id"]}), ("#good", {c["id"]}), ("the poster", makers), ("#old", users):
        look(page, f"{base}#view=time&find={query.replace('#', '%23')}")
        assert matched(page) == wanted, query
    look(page, f"{base}#view=time&command={c['id']}")
    assert page.text("#details .noted") == "#good the <b>right</b> one"
    look(page, f"{base}#view=time&file={sandbox.project}/fig.png")
    assert page.run("[...document.querySelectorAll('#details .uses > li')].map((l) => l.querySelector('.noted')?.innerText ?? null)") == [None, "#fig2 for the poster"]
    look(page, f"{base}#file={sandbox.project}/fig.png&n=1")
    assert "#fig2 for the poster" in page.run("document.querySelector('#picture .node.target').getAttribute('aria-label')")
    assert page.run("document.querySelector('#picture .flag.noted').textContent") == "#fig2 for…"
    # taken back, it is gone while one looks
    sandbox.shfs("note", "-d", "fig.png@1")
    study.run("echo x > other.txt")
    page.wait("!shfsMap.model.noteOf(shfsMap.model.paths.findIndex((p) => p.endsWith('/fig.png')), 1).note")
    nothing_bad(page)


# --- for all who look ---


@pytest.mark.users("ordinary")
def test_axe(study, page, sandbox):
    """axe-core has nothing to say of any view."""
    if not os.path.exists(AXE):
        pytest.skip("built without the packages of map/package.json")
    with open(AXE, encoding="utf-8") as file:
        axe = file.read()
    study.run("mkdir -p d/e; for i in 1 2 3; do echo $i,a > d/e/$i.csv; done; echo 1,b > d/e/1.csv")
    study.run("echo 2,b > d/e/1.csv")
    study.run("echo 'rate: 9' > config.yaml")
    known(page)
    base = f"http://127.0.0.1:{page.served.port}/"
    one = history(sandbox)[-1]["id"]
    sandbox.shfs("note", "-t", "draft", one, "the first try")
    sandbox.shfs("note", "-t", "fig2", "-t", "poster", "fig.png@2", "for the poster,", "in colour")
    views = {
        "results": ("", None),
        "graph": (f"#file={sandbox.project}/top.txt&n=2", None),
        "time": ("#view=time", None),
        "command": (f"#view=time&command={one}", None),
        "text": (f"#view=time&file={sandbox.project}/config.yaml", "diff"),
        "image": (f"#view=time&file={sandbox.project}/fig.png", "diff"),
        "undo": (f"#view=time&command={one}", "preview"),
        "table": (f"#view=time&file={sandbox.project}/d/e/1.csv", "diff"),
        "filters": ("#view=time&status=failed&colour=stale&find=top", None),
        "nothing": ("#command=0123456789abcdef", None),
        "keys": ("#view=time", "?"),
    }
    said = []
    for name, (hash_, button) in views.items():
        for size, dark in LOOKS:
            page.resize(*size)
            page.dark(dark)
            look(page, base + hash_)
            if button:
                page.click("#keys" if button == "?" else "#details button", button)
            page.run(axe + "; 0")
            found = page.run("axe.run(document).then((r) => r.violations.map((v) => [v.id, v.nodes[0].html, v.nodes[0].failureSummary]))")
            said += [(name, size, dark, *one) for one in found]
            if page.run("document.documentElement.scrollWidth") > size[0]:
                said.append((name, size, "too wide"))
            if "SHFS_TEST_PICTURES" in os.environ:
                page.picture(os.path.join(os.environ["SHFS_TEST_PICTURES"], f"{name}-{size[0]}-{'dark' if dark else 'light'}.png"))
    assert said == []
    nothing_bad(page)
