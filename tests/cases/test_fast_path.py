# SPDX-License-Identifier: MIT
"""Recording without a FUSE layer, where something goes wrong: it is said, and nothing is lost in
silence. What the helper and the drivers do each by itself: test_helper.py, test_drivers.py."""

import contextlib
import json
import os
import signal

import pytest

import harness
from harness import stopped, wait_until
from test_forget import places

pytestmark = pytest.mark.backends(without=["fuse"])


@pytest.fixture
def own_helper(sandbox):
    """One for this case alone, which it may stop or kill."""
    where = f"{sandbox.path}/helper"
    os.mkdir(where, 0o755)  # where nobody else may write
    one = harness.Helper(where)
    sandbox.env["SHFS_HELPER"] = one.socket
    yield one
    for mount in sandbox.mounts:
        mount.unmount()
    one.close()


def problems(sandbox):
    return json.loads(sandbox.shfs("status", "--json", check=False, cwd="/").stdout)["problems"]


def wait_for_problem(sandbox, text):
    wait_until(lambda: any(text in problem for problem in problems(sandbox)), text, 20)


def makers(sandbox, path):
    path = os.path.join(sandbox.project, path)
    log = json.loads(sandbox.shfs("log", "--reverse", "--json", path, cwd="/").stdout)
    return [v["command"] and v["command"]["text"] for v in log["versions"]]


# --- the directory ---


def test_root_removed(sandbox, project, shell):
    mount = sandbox.mount()
    terminal = shell(cwd=sandbox.home)
    line = "echo x > project/f; rm -r project"
    said = [terminal.run(line)]  # mostly later, but it may be this prompt that says so
    wait_until(lambda: mount.process.poll() is not None, "the recording to end", 20)
    wait_until(lambda: said.append(terminal.run("true")) or "was removed" in "".join(said), "the next prompt to say so", 20)
    assert f"{project} was removed, and its recording has ended with it" in "".join(said)
    wait_for_problem(sandbox, "was removed")
    assert makers(sandbox, f"{project}/f") == [line]
    terminal.run("mkdir project")
    again = sandbox.mount()
    assert problems(sandbox) == []
    terminal.run("echo again > project/f")
    assert makers(sandbox, f"{project}/f") == [line, "echo again > project/f"]
    again.unmount()


def test_root_renamed(sandbox, project, shell):
    sandbox.mount()
    terminal = shell(cwd=sandbox.home)
    lines = "mv project other; echo 1 > other/f", "echo 2 >> other/f"
    terminal.run(lines[0])
    wait_for_problem(sandbox, "was renamed, and is recorded by its old name")
    terminal.run(lines[1])
    assert makers(sandbox, f"{project}/f") == list(lines)
    terminal.run("mv other project")
    wait_until(lambda: problems(sandbox) == [], "the name to be known again")
    terminal.run("mv project other")
    sandbox.shfs("umount", project, cwd="/")
    assert problems(sandbox) == []
    terminal.run("mv other project")


def test_nested_roots(sandbox, project, mounted, shell):
    inner = sandbox.mkdir(f"{project}/inner")
    sandbox.mount(inner)
    terminal = shell()
    terminal.run("echo 1 > inner/f; echo 2 > g")
    terminal.run("mv inner/f f")
    terminal.run("echo 3 > inner/f")
    assert makers(sandbox, "g") == ["echo 1 > inner/f; echo 2 > g"]
    for path, last in (f"{inner}/f", "echo 3 > inner/f"), (f"{project}/f", "mv inner/f f"):
        assert makers(sandbox, path)[-1] in (last, "echo 1 > inner/f; echo 2 > g")
    for mount in sandbox.mounts:
        assert mount.status()["lost"] == "0"
    assert sandbox.shfs("cat", f"{inner}/f").stdout == "3\n"
    # one of them alone goes on
    sandbox.shfs("umount", project)
    terminal.run("echo 4 > inner/f; echo 5 > g")
    assert makers(sandbox, f"{inner}/f")[-1] == "echo 4 > inner/f; echo 5 > g"
    assert sandbox.shfs("cat", "g").stdout == "2\n"


# --- who records ---


def test_who_receives_runs_as_the_work_does(mounted):
    """Where all processors are busy, what goes behind is lost: what only hashes and compresses may."""
    proc = f"/proc/{mounted.process.pid}"
    nice = {}
    for task in os.listdir(f"{proc}/task"):
        with open(f"{proc}/task/{task}/comm", encoding="ascii") as comm:
            nice.setdefault(comm.read().strip(), os.getpriority(os.PRIO_PROCESS, int(task)))
    assert nice.pop("shfs-watch") == os.getpriority(os.PRIO_PROCESS, 0) < min(nice.values())
    with contextlib.suppress(FileNotFoundError):  # where sessions share no time
        with open(f"{proc}/autogroup", encoding="ascii") as group:
            assert group.read().split()[-1] == "0"


def test_the_helper_is_killed(sandbox, own_helper, mounted, shell):
    sandbox.allow_log("events were lost|the helper has gone")
    terminal = shell()
    terminal.run("echo 1 > a")
    assert makers(sandbox, "a") == ["echo 1 > a"]
    own_helper.kill()
    wait_for_problem(sandbox, "shfs-helper has ended; start it again")
    wait_for_problem(sandbox, "records lost")
    assert f"nothing of {sandbox.project} is recorded" in terminal.run("true").replace("~", sandbox.home)
    result = sandbox.shfs("log", "a", check=False)
    assert "lost records" in result.stderr and "a@1" in result.stdout
    terminal.run("echo 2 > b")
    own_helper.start()
    wait_until(lambda: mounted.status().get("backend") == sandbox.backend, "the helper to be found again")
    assert terminal.run("echo 3 > c") == ""
    assert makers(sandbox, "c") == ["echo 3 > c"]
    assert not [problem for problem in problems(sandbox) if "helper" in problem]
    assert mounted.status()["lost"] != "0"
    assert "lost in all" in sandbox.shfs("status", check=False).stdout


FLOOD = """
import os
import signal
for i in range(300000):
    os.close(os.open(f"flood{i % 20000}", os.O_WRONLY | os.O_CREAT))
"""


@pytest.mark.users("ordinary")
def test_hidden_arguments_of_programs_that_ended(sandbox, mounted, shell, backend):
    """Nobody can read the environment any more: who tells of the program tells that it is hidden, too."""
    sandbox.write("in", "x\n")
    terminal = shell()
    program = "perl -e 'open(F, q(in)); exit'"
    with stopped(mounted.process.pid):
        terminal.run(f" {program} word-of-a-hidden-line")
        terminal.run(f" {program} {'x' * 1000}-word-of-a-hidden-line")
        terminal.run(f"env long={'e' * 5000} {program} word-of-another")
    sandbox.shfs("sync")
    shown = json.loads(sandbox.shfs("history", "--all", "--json").stdout)["commands"]
    another, = (command["id"] for command in shown if command["text"] and "word-of-another" in command["text"])
    processes = json.loads(sandbox.shfs("show", "--json", another).stdout)["processes"]
    mounted.unmount()
    assert not places(sandbox.store, b"word-of-a-hidden-line")
    if backend != "fanotify":  # it has none of a program that ended at once
        assert ["word-of-another"] in [process["argv"][-1:] for process in processes]


@pytest.mark.alone
@pytest.mark.backends(without=["fuse"])
@pytest.mark.users("ordinary")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("other", [False, True] if "SHFS_TEST_LONG" in os.environ else [False])
def test_losses_are_counted_and_shown(sandbox, own_helper, mounted, shell, backend, other):
    """What stands between is stopped while more happens than there is room for: with fanotify the recorder, else
    the driver; in the long form each."""
    stops_driver = (backend == "fanotify") == other
    sandbox.allow_log("events were lost")
    sandbox.allow_exit(-signal.SIGKILL)  # of questions that were not answered
    sandbox.write_outside(f"{sandbox.path}/flood.py", FLOOD)
    terminal = shell()
    line = f"python3 {sandbox.path}/flood.py"
    child, = own_helper.children()
    with stopped(child if stops_driver else mounted.process.pid):
        terminal.run(line, timeout=120)
        result = sandbox.shfs("log", "flood0", check=False)
        assert "does not answer: its latest records are missing" in result.stderr
    wait_until(lambda: mounted.status().get("queued") == "0", "all to be told", 60)
    terminal.run("echo x > behind")
    assert makers(sandbox, "behind") == ["echo x > behind"]
    lost = int(mounted.status()["lost"])
    assert lost
    assert any("records lost" in problem for problem in problems(sandbox))
    found = json.loads(sandbox.shfs("history", "--all", "--json").stdout)["commands"]
    shown, = (command["id"] for command in found if command["text"] == line)
    assert "records were lost by the mounts of that time" in sandbox.shfs("show", shown).stdout
