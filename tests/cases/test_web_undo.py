# SPDX-License-Identifier: MIT
"""web: what an undo of a command would do, before it is done."""

import json
import random

import pytest

from harness import seeds
from test_agents import Agent
from test_web_live import has
from webs import known, look, nothing_bad, page, served, step, study  # noqa: F401

pytestmark = pytest.mark.users("ordinary")


def commands(sandbox):
    known_ = json.loads(sandbox.shfs("history", "--json", "--all", sandbox.project).stdout)["commands"]
    return {c["text"]: c["id"] for c in known_ if c["id"]}


def same_as_the_command(served, sandbox, id_):
    """Asks both; returns what they say, if it is the same."""
    said = served.json(f"/undo?command={id_}")
    found = sandbox.shfs("undo", "--dry-run", "--json", id_, check=False)
    if not said.pop("any"):
        assert found.status == 3 and not any(said.values()), found
        return said
    assert said == {key: json.loads(found.stdout)[key] for key in ("changes", "left_alone", "notes")}
    return said


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_it_is_what_the_command_says(study, served, sandbox, seed):
    """Of each command of a random history, of an agent among them."""
    chance = random.Random(seed)
    study.run("rm *.png; mkdir sub; echo a > a; echo b > b; echo e > e")
    for _ in range(12):
        step(chance, sandbox, study)
    agent = Agent(sandbox, calls=[("bash -c", "echo 1 > by_agent"), ("bash -c", "mv by_agent renamed; echo 2 >> a")])
    line = agent.line(f"cd {sandbox.project}; ")
    study.run(line)
    study.run("echo behind > out.csv; chmod 700 top.txt; wait")
    sandbox.write("b", "changed by nobody knows whom\n")
    said = [same_as_the_command(served, sandbox, id_) for id_ in commands(sandbox).values()]
    assert sum(len(one["changes"]) for one in said) > 10 and any(one["left_alone"] for one in said)
    of_agent = same_as_the_command(served, sandbox, commands(sandbox)[line])
    assert ["remove", f"{sandbox.project}/renamed"] in [[one["change"], one["path"]] for one in of_agent["changes"]], of_agent


def test_what_is_no_command(served):
    for path in "/undo", "/undo?command=", "/undo?command=zzzz", "/undo?command=0123456789abcdef", "/undo?command=%27%20or%201":
        assert served.get(path).status in (400, 404), path
    assert served.ask("/undo?command=0123456789abcdef").status == 403


def rows(page, head):
    """The rows below a head of the preview, without what opens something."""
    return page.run(f"""[...document.querySelectorAll('.undo h3')].filter((h) => h.textContent === {json.dumps(head)})
        .flatMap((h) => [...h.nextElementSibling.children].map((li) => [...li.querySelectorAll('.use > :not(.openers)')].map((e) => e.textContent)))""")


def press(page):
    """Hides the preview, and shows it as it is now."""
    for _ in range(2):
        page.click("#details button", "preview")
    page.wait("!!document.querySelector('.undo')")


def test_preview(study, page, sandbox):
    """As a person sees it: what is to be done, its diff, what others have changed since; and then it is done."""
    text = "sed -i 's/rate: 3/rate: 5/' config.yaml"
    study.run("cp config.yaml copy.yaml; echo one > one.txt; mv data/in.csv data/out.csv")
    three = commands(sandbox)["cp config.yaml copy.yaml; echo one > one.txt; mv data/in.csv data/out.csv"]
    known(page)
    base = f"http://127.0.0.1:{page.served.port}/"
    look(page, f"{base}#view=time&command={three}")
    page.click("#details button", "preview")
    page.wait("!!document.querySelector('.undo h3')")
    found = rows(page, "To be undone")
    assert sorted(row[:2] for row in found) == [["remove", "copy.yaml@1"], ["remove", "one.txt@1"], ["rename", "data/in.csv"]]
    assert "from data/out.csv" in next(row[2] for row in found if row[0] == "rename")
    page.click(".undo .openers button", "text")
    page.wait("!!document.querySelector('.undo .shown')")
    # somebody changes one of them: it is said by the next one
    study.run("echo more >> one.txt")
    has(page, "echo more >> one.txt")
    press(page)
    page.wait("document.querySelector('.undo .by')?.textContent === 'by echo more >> one.txt'")
    assert rows(page, "Left alone") == [["one.txt", "was changed since"]]
    assert sorted(row[1] for row in rows(page, "To be undone")) == ["copy.yaml@1", "data/in.csv"]
    page.click(".undo .by button", "echo more")
    page.wait("document.querySelector('#details pre.typed').textContent === 'echo more >> one.txt'")
    page.click("#details button", "preview")
    page.wait("!!document.querySelector('.undo h3')")
    assert rows(page, "To be undone") == [["content", "one.txt", "from @2 back to @1"]]
    page.click(".undo .openers button", "diff")
    page.wait("!!document.querySelector('.undo .shown .line')")
    shown = page.run("[...document.querySelectorAll('.undo .shown .line')].map((l) => l.innerText)")
    assert any("more" in line for line in shown)
    # it is copied, and run
    page.run("navigator.clipboard.writeText = (text) => (globalThis.copied = text, Promise.resolve())")
    page.click("#details button", "copy undo")
    copied = page.run("globalThis.copied")
    assert copied == f"shfs undo {commands(sandbox)['echo more >> one.txt']}"
    study.run(f"{copied} --yes")
    assert sandbox.read("one.txt") == b"one\n"
    has(page, f"{copied} --yes")
    press(page)
    page.wait("document.querySelector('.undo').textContent.includes(': there is nothing to undo')")
    # of one that was saved by a rename there are differences, too
    study.run("sed -i s/model/kind/ copy.yaml; sed -i s/linear/cubic/ copy.yaml")
    has(page, "sed -i s/model/kind/ copy.yaml; sed -i s/linear/cubic/ copy.yaml")
    look(page, f"{base}#view=time&command={commands(sandbox)['sed -i s/model/kind/ copy.yaml; sed -i s/linear/cubic/ copy.yaml']}")
    page.click("#details button", "preview")
    page.wait("!!document.querySelector('.undo h3')")
    assert rows(page, "To be undone") == [["restore", "copy.yaml", "from @3 back to @1"]]
    page.click(".undo .openers button", "diff")
    page.wait("!!document.querySelector('.undo .shown .line')")
    # what read only
    look(page, f"{base}#view=time&command={commands(sandbox)['false; cat top.txt nothere']}")
    page.click("#details button", "preview")
    page.wait("!!document.querySelector('.undo')")
    assert ": it has changed no file" in page.text(".undo")
    # with what a later one has changed, nothing of it is undone
    look(page, f"{base}#view=time&command={commands(sandbox)[text]}")
    page.click("#details button", "preview")
    page.wait("!!document.querySelector('.undo h3')")
    assert rows(page, "Left alone") and not rows(page, "To be undone")
    assert ": there is nothing that shfs undo would put back." in page.text(".undo")
    nothing_bad(page)
