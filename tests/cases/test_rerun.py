# SPDX-License-Identifier: MIT
"""rerun: commands typed into real shells are run again, in place and in a copy, and what comes out is
compared with what was there."""

import json
import os
import re
import signal
import time

import pytest

from analysis import PROJECT, SORT, lay_out
from harness import Shell, contents, ids_of, wait_until

pytestmark = pytest.mark.either


@pytest.fixture
def study(work):
    """out.csv and top.txt."""
    work.run("sh run.sh")
    work.run(SORT)
    return work


def rerun(sandbox, *args, check=True):
    """[(text, state, {file: outcome})] of what was run."""
    found = json.loads(sandbox.shfs("rerun", "--json", "--yes", *args, check=check).stdout)
    return [
        (c["text"], c["state"], {r["path"].removeprefix(sandbox.project + "/"): r["outcome"] for r in c["results"]})
        for c in found["commands"]
    ]


def stale(sandbox):
    return json.loads(sandbox.shfs("stale", "--json", check=False).stdout)["stale"]


# --- in place ---


def test_in_place(study, sandbox):
    assert sandbox.shfs("rerun").stdout == "Nothing is stale.\n"
    study.run("sed -i s/3/5/ config.yaml")
    found = rerun(sandbox)
    assert found == [("sh run.sh", "ran", {"out.csv": "different"}), (SORT, "ran", {"top.txt": "different"})]
    assert sandbox.read("top.txt") == b"15\n10\n5\n"
    assert stale(sandbox) == 0 and rerun(sandbox) == []
    # what was there is not lost
    assert sandbox.shfs("cat", "top.txt@1").stdout == "9\n6\n3\n"


def test_what_it_shows(study, sandbox):
    study.run("sed -i s/3/5/ config.yaml")
    shown = Shell.plain(study.run("shfs rerun -n"))
    assert re.sub("(?m)^[0-9a-f]{7,}  ", "ID  ", shown).splitlines() == [
        "ID  sh run.sh",
        "         in ~/project",
        f"ID  {SORT}",
        "         in ~/project",
    ]
    assert stale(sandbox) == 2
    shown = Shell.plain(study.run("shfs rerun -y"))
    assert re.sub("(?m)^[0-9a-f]{7,}  ", "ID  ", shown).splitlines() == [
        "ID  sh run.sh",
        "         in ~/project",
        "         out.csv@1  different",
        f"ID  {SORT}",
        "         in ~/project",
        "         top.txt@1  different",
        "2 commands run; results: 0 same, 2 different",
    ]


def test_it_asks(study, sandbox):
    study.run("sed -i s/3/5/ config.yaml")
    # nobody is there to be asked
    assert "--yes" in sandbox.shfs("rerun", check=4).stderr and stale(sandbox) == 2
    study.send("shfs rerun\r")
    study.pty.expect_exact("Run these commands? [y/N]")
    study.send("\r")
    assert "Nothing was run." in study.wait() and stale(sandbox) == 2
    study.send("shfs rerun\r")
    study.pty.expect_exact("Run these commands? [y/N]")
    study.send("y\r")
    study.wait()
    assert stale(sandbox) == 0


def test_of_one_file(study, sandbox):
    study.run("wc -l < data/in.csv > lines")
    study.run("echo 4 >> data/in.csv; sed -i s/3/5/ config.yaml")
    assert [c[0] for c in rerun(sandbox, "lines")] == ["wc -l < data/in.csv > lines"]
    assert [c[0] for c in rerun(sandbox, "-n")] == ["sh run.sh", SORT]
    assert [c[0] for c in rerun(sandbox, "top.txt")] == ["sh run.sh", SORT]
    assert stale(sandbox) == 0


def test_what_comes_out_the_same_is_followed_no_further(study, sandbox):
    study.run("echo '# a remark' >> config.yaml")
    assert rerun(sandbox) == [("sh run.sh", "ran", {"out.csv": "same"}), (SORT, "unneeded", {"top.txt": None})]
    assert stale(sandbox) == 0
    study.run("sed -i s/3/7/ config.yaml")
    assert [c[1] for c in rerun(sandbox)] == ["ran", "ran"]
    assert sandbox.read("top.txt") == b"21\n14\n7\n"


@pytest.mark.both
def test_they_are_recorded_as_if_they_had_been_typed(study, sandbox):
    study.run("sed -i s/3/5/ config.yaml")
    study.run("shfs rerun --yes")
    entries = json.loads(sandbox.shfs("history", "--json", "--wrote", "top.txt").stdout)["commands"]
    assert [c["text"] for c in entries] == [SORT, SORT]
    assert entries[0]["cwd"] == sandbox.project and entries[0]["status"] == 0
    makers = json.loads(sandbox.shfs("why", "--json", "top.txt").stdout)["commands"]
    assert [c["text"] for c in makers if c["id"]] == [SORT, "sh run.sh", "sed -i s/3/5/ config.yaml"]
    shown = sandbox.shfs("show", entries[0]["id"]).stdout
    assert "bash" in shown and "out.csv@2" in shown
    # and so can be run again themselves
    assert rerun(sandbox, "--command", entries[0]["id"]) == [(SORT, "ran", {"top.txt": "same"})]
    script = sandbox.shfs("export", "sh", "top.txt").stdout
    assert "shfs rerun" not in script and SORT in script


def test_one_command(study, sandbox):
    found = rerun(sandbox, "--command", ids_of(sandbox, SORT)[-1][:7])
    assert found == [(SORT, "ran", {"top.txt": "same"})]
    assert "no command's id" in sandbox.shfs("rerun", "--command", "ffffffff", check=3).stderr
    sandbox.shfs("rerun", "--command", "ffffffff", "out.csv", check=2)
    study.run("date +%N > now")
    assert rerun(sandbox, "--command", ids_of(sandbox, "date +%N > now")[-1]) == [
        ("date +%N > now", "ran", {"now": "different"})
    ]


@pytest.mark.users("ordinary")
def test_each_by_its_shell_in_its_directory(work, sandbox, shell):
    zsh, fish = shell("zsh"), shell("fish")
    zsh.run("cd data")
    zsh.run("print -l ${(s:,:):-3,1,2} ${(f)\"$(<in.csv)\"} > ../a")
    fish.run("for i in (cat a); echo n$i; end > b")
    work.run("cat b b > c")
    work.run("echo 9 >> data/in.csv")
    assert [c[1] for c in rerun(sandbox)] == ["ran", "ran", "ran"]
    assert sandbox.read("c") == b"n3\nn1\nn2\nn1\nn2\nn3\nn9\n" * 2
    assert stale(sandbox) == 0


@pytest.mark.users("ordinary")
def test_what_was_not_there_is_not_there_again(work, sandbox):
    """Or ">>" would write it twice, and mkdir would fail."""
    work.run("sort data/in.csv >> a; [ -e b ] || cp a b; mkdir new; cp a new/c")
    work.run("echo 0 >> data/in.csv")
    [(_, state, outcomes)] = rerun(sandbox)
    assert state == "ran" and outcomes == {"a": "different", "b": "different", "new/c": "different"}
    assert sandbox.read("a") == sandbox.read("b") == sandbox.read("new/c") == b"0\n1\n2\n3\n"


@pytest.mark.users("ordinary")
def test_what_was_removed_is_made_again(work, sandbox):
    work.run("sort data/in.csv > mid; echo 5 > other")
    work.run("cat mid other > last")
    work.run("rm mid; echo 6 > other")
    run = sandbox.shfs("rerun", "--yes", "last", check=4)
    assert "would overwrite other, which was changed since" in run.stderr
    work.run("sort data/in.csv > mid")
    work.run("cat mid other > last")
    work.run("rm mid; echo 7 > other")
    assert rerun(sandbox, "last") == [
        ("sort data/in.csv > mid", "ran", {"mid": "new"}), ("cat mid other > last", "ran", {"last": "different"}),
    ]  # fmt: skip
    assert sandbox.read("last") == b"1\n2\n3\n7\n"


@pytest.mark.users("ordinary")
def test_jobs_and_statuses(work, sandbox):
    work.run("{ sleep 0.2; sort data/in.csv > a; } & sleep 0.01")
    work.run("wait; grep nothing data/in.csv > b")
    work.run("echo 0 >> data/in.csv")
    assert sorted(c[1] for c in rerun(sandbox)) == ["ran", "ran"]
    assert sandbox.read("a") == b"0\n1\n2\n3\n"


@pytest.mark.users("ordinary")
def test_a_daemon_keeps_its_command(work, sandbox):
    text = "setsid -f sh -c 'sleep 0.5; cat data/in.csv > late'; cat data/in.csv > early"
    work.run(text)
    wait_until(lambda: sandbox.sh("cat late", check=False).stdout == "1\n2\n3\n", "the daemon")
    work.run("echo 4 >> data/in.csv")
    rerun(sandbox, "--force", "early", check=False)
    wait_until(lambda: sandbox.sh("cat late", check=False).stdout == "1\n2\n3\n4\n", "the daemon")
    assert text in [command["text"] for command in json.loads(sandbox.shfs("why", "--json", "late").stdout)["commands"]]


@pytest.mark.users("ordinary")
def test_what_another_overwrites_is_made_again(work, sandbox):
    for text in (
        "grep -v '#' config.yaml > clean", "cat data/in.csv > both; cat data/in.csv > a", "sort clean data/in.csv > both",
    ):  # fmt: skip
        work.run(text)
    work.run("echo '# a remark' >> config.yaml; echo 4 >> data/in.csv")
    assert [c[1] for c in rerun(sandbox)] == ["ran"] * 3
    assert sandbox.read("both") == b"1\n2\n3\n4\nmodel: linear\nrate: 3\n"


@pytest.mark.users("ordinary")
def test_circles(work, sandbox):
    work.run("cp data/in.csv a")
    work.run("sort a > b")
    work.run("sort -r b > a")
    run = sandbox.shfs("rerun", "--yes", check=False)
    if run.status:  # whatever is refused, is for what was there is gone
        assert run.status == 4 and "had another content then" in run.stderr
        assert sandbox.read("a") == b"3\n2\n1\n"
    rerun(sandbox, "--scratch", "--command", ids_of(sandbox, "sort a > b")[-1])


@pytest.mark.backends
@pytest.mark.users("ordinary")
def test_without_a_fuse_layer(sandbox, shell):
    lay_out(sandbox)
    sandbox.mount()
    bash = shell()
    bash.run("sh run.sh")
    bash.run(SORT)
    bash.run("sed -i s/3/5/ config.yaml")
    assert [c[1:] for c in rerun(sandbox)] == [("ran", {"out.csv": "different"}), ("ran", {"top.txt": "different"})]
    assert stale(sandbox) == 0 and sandbox.shfs("cat", "top.txt@1").stdout == "9\n6\n3\n"
    entries = json.loads(sandbox.shfs("history", "--json", "--wrote", "top.txt").stdout)["commands"]
    assert [c["text"] for c in entries] == [SORT, SORT]


# --- what fails ---


@pytest.mark.users("ordinary")
def test_a_failing_command_stops_the_run(study, sandbox):
    study.run("wc -l < data/in.csv > lines")
    study.run("sed -i s/3/5/ config.yaml; echo 4 >> data/in.csv; echo 'exit 7' > run.sh")
    run = sandbox.shfs("rerun", "--yes", check=1)
    assert "ended with 7" in run.stderr and "out.csv@1  as it was" in run.stdout
    assert ", 1 failed, " in run.stdout
    # what it did not make anew is as it was
    assert sandbox.read("out.csv") == b"3\n6\n9\n" and stale(sandbox) == 2 + ("wc -l" not in run.stdout)
    # below the hook, too, which knows whose each access is
    assert "ended with 7" in study.run("shfs rerun -y out.csv") and stale(sandbox) >= 2
    assert sandbox.read("out.csv") == b"3\n6\n9\n"
    sandbox.write("run.sh", PROJECT["run.sh"])
    rerun(sandbox)
    assert sandbox.read("top.txt") == b"20\n15\n10\n5\n" and stale(sandbox) == 0


@pytest.mark.users("ordinary")
def test_half_a_result(work, sandbox):
    text = "head -1 data/in.csv > a; if [ -e stop ]; then false; else cat data/in.csv >> a; fi"
    work.run(text)
    work.run("touch stop; echo 4 >> data/in.csv")
    run = sandbox.shfs("rerun", "--yes", check=1)
    assert "a@" in run.stdout and "as it was" in run.stdout and "brings back" not in run.stderr
    assert sandbox.read("a") == b"1\n1\n2\n3\n"
    versions = json.loads(sandbox.shfs("log", "--json", "a").stdout)["versions"]
    assert "1\n" in [sandbox.shfs("cat", f"a@{v['n']}").stdout for v in versions], "half of it, too"


@pytest.mark.users("ordinary")
def test_what_the_store_does_not_have_is_kept_for_a_moment(work, sandbox):
    """A rule keeps it out of the store."""
    sandbox.write(".shfsignore", b"s\n")
    work.run("sort data/in.csv > s; test ! -e stop")
    work.run("touch stop; echo by hand > s")
    run = sandbox.shfs("rerun", "--yes", "--force", "--command", ids_of(sandbox, "sort data/in.csv > s; test ! -e stop")[-1], check=1)
    assert sandbox.read("s") == b"by hand\n" and "s@2  as it was" in run.stdout, run


@pytest.mark.users("ordinary")
def test_what_cannot_be_put_back_is_named(work, sandbox):
    """The store does not have it, and that the command changes it could not be known."""
    sandbox.write(".shfsignore", b"s\n")
    sandbox.write("s", b"by hand\n")
    text = "sort data/in.csv > t; if [ -e stop ]; then echo 1 > s; false; fi"
    work.run(text)
    work.run("touch stop; echo 4 >> data/in.csv")
    run = sandbox.shfs("rerun", "--yes", check=1)
    assert "s stays as it is: its earlier content is not archived" in run.stderr
    assert sandbox.read("t") == b"1\n2\n3\n" and sandbox.read("s") == b"1\n"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("line", ["PATH=$PWD/bin:$PATH tool < data/in.csv > t", "export PATH=$PWD/bin:$PATH; tool < data/in.csv > t; PATH=${PATH#*:}"])
def test_a_program_of_a_path_of_its_own(work, sandbox, line):
    """That the command has executed it shows that it was no alias."""
    work.run("mkdir bin; cp /usr/bin/sort bin/tool")
    work.run(line)
    work.run("echo 0 >> data/in.csv")
    assert "no program" not in sandbox.shfs("rerun", "--yes").stderr
    assert sandbox.read("t").startswith(b"0\n")


@pytest.mark.users("ordinary")
def test_keep_going(study, sandbox):
    study.run("wc -l < data/in.csv > lines")
    study.run("echo 4 >> data/in.csv; echo 'exit 7' > run.sh")
    found = {text: state for text, state, _ in rerun(sandbox, "-k", check=1)}
    assert found == {"sh run.sh": "failed", SORT: "left_out", "wc -l < data/in.csv > lines": "ran"}
    assert sandbox.read("lines") == b"4\n" and sandbox.read("top.txt") == b"9\n6\n3\n"


@pytest.mark.users("ordinary")
def test_interrupted(work, sandbox):
    work.run("echo 4 >> data/in.csv")
    text = "[ ! -e slower ] || sleep 30; cat data/in.csv > d"
    work.run(text)
    sandbox.sh("touch slower")
    work.send(f"shfs rerun --command {ids_of(sandbox, text)[-1]}\r")
    work.pty.expect_exact("in ~/project")
    time.sleep(0.5)
    work.send("\x03")
    begun = time.monotonic()
    shown = work.wait()
    assert sandbox.read("d") == b"1\n2\n3\n4\n"
    assert "was interrupted" in shown and "brings back" not in shown and time.monotonic() - begun < 20
    assert work.run("echo $?") == str(128 + signal.SIGINT)
    assert not sandbox.sh("pgrep -u $(id -u) -f '^sleep 30$'", check=False).stdout


# --- what is refused ---


REFUSED = {
    "vim -es +wq config.yaml; cat data/in.csv > x": "waits for the user",
    "cat data/in.csv > x; git --version": "restores contents that it has kept",
    "cat data/in.csv > $x": "uses the variable x",
    'awk "/$pattern/" data/in.csv > x': "uses the variable pattern",
    "cat data/in.csv > x; cd -": "goes to where the shell was before",
    "read a; cat data/in.csv > x": "reads from the terminal",
    "sed -i s/1/7/ data/in.csv": "changes data/in.csv, which had another content then (data/in.csv@",
    "echo 5 >> data/in.csv": "changes data/in.csv, which had another content",
    "cat gone > x": "needs gone@1, which does not exist now",
    "mv moved x": "needs moved, which does not exist now",
    " cat data/in.csv > x": "its text was not kept",
}


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("text", REFUSED)
def test_refused(work, sandbox, text):
    work.run("x=x; pattern=1; cd data; cd ..; cp data/in.csv gone; cp data/in.csv moved")
    if text.startswith("read"):
        work.send(text + "\r")
        work.pty.expect_exact(Shell.BEGIN)
        time.sleep(0.3)
        work.send("1\n")
        work.wait()
    else:
        work.run(text)
    sandbox.sh("rm -f gone")
    before = sandbox.sh("find . -type f | sort | xargs cat").stdout
    entries = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    ident = next(c["id"] for c in entries if c["id"] and c["text"] in (text, None))
    run = sandbox.shfs("rerun", "--command", ident, check=4)
    assert REFUSED[text] in run.stderr and ident[:7] in run.stderr
    assert sandbox.sh("find . -type f | sort | xargs cat").stdout == before
    assert sandbox.shfs("rerun", "-n", "--command", ident, check=4).stderr == run.stderr


@pytest.mark.users("ordinary")
def test_what_is_refused_does_not_stop_the_rest(study, sandbox):
    alone, of_alone, of_both = "sort data/in.csv > $name", "cat alone > after", "cat after top.txt > both"
    for text in ("name=alone", alone, of_alone, of_both, "wc -l < data/in.csv > lines"):
        study.run(text)
    study.run("echo 4 >> data/in.csv")
    shown = sandbox.shfs("rerun", "-n", check=4)
    assert "wc -l" in shown.stdout and of_both not in shown.stdout
    run = sandbox.shfs("rerun", "--json", "--yes", check=4)
    assert run.stderr.count("uses the variable name") == 1
    for text in of_alone, of_both:
        assert re.search(rf"\({re.escape(text)}\) was not run: an input of it was not made", run.stderr), run
    found = {c["text"]: c["state"] for c in json.loads(run.stdout)["commands"]}
    ran = {"sh run.sh", SORT, "wc -l < data/in.csv > lines"}
    assert found == {**dict.fromkeys(ran, "ran"), alone: "refused", of_alone: "left_out", of_both: "left_out"}
    assert sandbox.read("lines") == b"4\n" and sandbox.read("top.txt") == b"12\n9\n6\n3\n"
    assert sandbox.read("both") == b"1\n2\n3\n9\n6\n3\n" and stale(sandbox) == 3
    # now there is nothing else
    run = sandbox.shfs("rerun", "--yes", check=4)
    assert "was not run" not in run.stderr and not run.stdout


@pytest.mark.users("ordinary")
def test_what_a_refused_one_would_make_anew_is_not_overwritten(work, sandbox):
    """The first may overwrite what the second made later only if that is run, too."""
    work.run("name=both")
    work.run("cat data/in.csv > both; cat data/in.csv > a")
    work.run("sort -r data/in.csv config.yaml > $name")
    work.run("echo 4 >> data/in.csv")
    run = sandbox.shfs("rerun", "--yes", check=4)
    assert "uses the variable name" in run.stderr and "would overwrite both, which was changed since, by" in run.stderr
    assert sandbox.read("both").startswith(b"rate") and sandbox.read("a") == b"1\n2\n3\n"


@pytest.mark.users("ordinary")
def test_variables_that_are_known(work, sandbox):
    work.run("export rate=4")
    texts = [
        "for f in data/in.csv; do sort $f > ${f##*/}.out; done",
        "n=2; head -$n data/in.csv > two; while read -r line; do echo \"$line\" >> three; done < data/in.csv",
        "awk '{ print $NF }' data/in.csv > four # $remark",
        'echo "$(awk \'{ print $NF * 2 }\' data/in.csv)" "${none:-x}" $? > five',
        "cat <<'END' > six; cat data/in.csv >> six\n$nothing\nEND",
    ]
    for text in texts:
        work.run(text)
        assert rerun(sandbox, "--command", ids_of(sandbox, text)[-1])[0][1] == "ran", text
    work.run("echo $rate $(cat data/in.csv) > rated")
    ident = ids_of(sandbox, "echo $rate $(cat data/in.csv) > rated")[-1]
    assert "uses the variable rate" in sandbox.shfs("rerun", "--command", ident, check=4).stderr
    # whoever gives it a value knows it
    sandbox.shfs("rerun", "--command", ident, env={"rate": "4"})
    assert sandbox.read("rated") == b"4 1 2 3\n"


@pytest.mark.users("ordinary")
def test_the_work_of_others_is_not_overwritten(study, sandbox):
    text = "sort out.csv > a; cat out.csv > b"
    study.run(text)
    study.run("echo mine >> b")
    study.run("sed -i s/3/5/ config.yaml")
    run = sandbox.shfs("rerun", "--yes", check=4)
    assert "would overwrite b, which was changed since, by" in run.stderr and "echo mine >> b" in run.stderr
    assert sandbox.read("a") == b"3\n6\n9\n" and sandbox.read("b").endswith(b"mine\n")
    # the rest was run
    assert sandbox.read("out.csv") == b"5\n10\n15\n" and sandbox.read("top.txt") == b"15\n10\n5\n"
    rerun(sandbox, "--force")
    assert sandbox.read("b") == b"5\n10\n15\n"
    assert sandbox.shfs("cat", "b@2").stdout.endswith("mine\n")


@pytest.mark.users("ordinary")
def test_what_is_not_archived_is_not_overwritten(sandbox, mount, shell):
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\n")
    mount()
    bash = shell()
    bash.run("seq 9 > in")
    bash.run("for i in $(seq 100); do cat in; done > out")
    bash.run("echo 10 >> in")
    run = sandbox.shfs("rerun", "--yes", check=4)
    assert "would overwrite out, which is not archived" in run.stderr
    assert rerun(sandbox, "--force")[0][2] == {"out": "uncompared"}


def test_not_recorded(sandbox, mount, shell):
    """Nothing that is overwritten could be brought back; what is known to be overwritten is, if forced."""
    there = mount()
    bash = shell()
    bash.run("seq 3 > in")
    bash.run("sort -r in > out")
    bash.run("cd ..")
    bash.close()
    there.unmount()
    ident = ids_of(sandbox, "sort -r in > out")[-1]
    run = sandbox.shfs("rerun", "--command", ident, check=4)
    assert "is not recorded now" in run.stderr and "--scratch" in run.stderr
    sandbox.write("out", "by hand\n")
    run = sandbox.shfs("rerun", "--command", ident, check=4)
    assert "changed while nothing was recorded" in run.stderr
    rerun(sandbox, "--force", "--command", ident)
    assert sandbox.read("out") == b"3\n2\n1\n"
    versions = json.loads(sandbox.shfs("log", "--json", "out").stdout)["versions"]
    assert "by hand\n" in [sandbox.shfs("cat", f"out@{v['n']}").stdout for v in versions]


@pytest.mark.users("ordinary")
def test_a_refused_one_need_not_be_recorded(sandbox, mount, shell):
    other = f"{sandbox.home}/other"
    sandbox.sh(f"mkdir {other}")
    mount()
    there = mount(other)
    bash = shell()
    bash.run("seq 3 > in")
    bash.run(f"sort -r in > out; sort -r in > {other}/out")
    bash.run("sort in > sorted")
    bash.run(f"echo mine > {other}/out; echo 4 >> in")
    there.unmount()
    run = sandbox.shfs("rerun", "--yes", check=4)
    assert "would overwrite ~/other/out, which was changed since" in run.stderr
    assert "is not recorded now" not in run.stderr and sandbox.read("sorted") == b"1\n2\n3\n4\n"


# --- in a copy ---


@pytest.mark.both
def test_scratch(study, sandbox):
    study.run("sed -i s/3/5/ config.yaml")
    before = {name: sandbox.sh(f"stat -c '%Y %Z %i' {name}; cat {name}").stdout for name in ("out.csv", "top.txt")}
    top = f"{sandbox.path}/tmp/copy"
    found = rerun(sandbox, f"--scratch={top}")
    assert [c[2] for c in found] == [{"out.csv": "different"}, {"top.txt": "different"}]
    assert contents(top) == {
        **{name: text.encode() for name, text in PROJECT.items()},
        "config.yaml": b"rate: 5\nmodel: linear\n", "out.csv": b"5\n10\n15\n", "top.txt": b"15\n10\n5\n",
    }  # fmt: skip
    # the project is as it was
    assert before == {name: sandbox.sh(f"stat -c '%Y %Z %i' {name}; cat {name}").stdout for name in before}
    assert stale(sandbox) == 2
    assert "is not empty" in sandbox.shfs("rerun", "--yes", f"--scratch={top}", check=4).stderr
    run = sandbox.shfs("rerun", "--yes", "--scratch=copy", check=4)
    assert "is in the project" in run.stderr and sandbox.sh("ls").stdout.split() == [
        "config.yaml", "data", "model.awk", "out.csv", "run.sh", "top.txt",
    ]  # fmt: skip
    told = sandbox.shfs("rerun", "--yes", "--scratch").stdout.splitlines()[-1].removeprefix("in ")
    assert contents(told)["top.txt"] == b"15\n10\n5\n"
    assert [n for n in os.listdir(f"{sandbox.path}/tmp") if n.startswith("shfs-rerun")] == [os.path.basename(told)]


def test_a_command_with_what_it_read_then(study, sandbox):
    study.run("sed -i s/3/5/ config.yaml; rm data/in.csv")
    first = ids_of(sandbox, "sh run.sh")[-1]
    top = f"{sandbox.path}/tmp/copy"
    assert rerun(sandbox, f"--scratch={top}", "--command", first) == [("sh run.sh", "ran", {"out.csv": "same"})]
    assert contents(top)["config.yaml"].startswith(b"rate: 3")
    study.run("date +%N > now; cat config.yaml >> now")
    found = rerun(sandbox, "--scratch", "--command", ids_of(sandbox, "date +%N > now; cat config.yaml >> now")[-1])
    assert found[0][2] == {"now": "different"}


@pytest.mark.users("ordinary")
def test_what_was_edited_in_place_can_be_in_a_copy(work, sandbox):
    work.run("cp data/in.csv a")
    work.run("sed -i s/1/7/ a; cat a > b")
    work.run("mv b c; rm a")
    for text, outcome in ("sed -i s/1/7/ a; cat a > b", {"a": "same", "b": "same"}), ("mv b c; rm a", {"c": "same"}):
        assert rerun(sandbox, "--scratch", "--command", ids_of(sandbox, text)[-1])[0][2] == outcome


@pytest.mark.users("ordinary")
def test_in_directories(work, sandbox):
    work.run("mkdir -p results/deep && cp data/in.csv results/deep/a")
    work.run("cd data")
    work.run("sort -r in.csv ../results/deep/a > ../results/b; mkdir ../made; cp in.csv ../made/c")
    text = "sort -r in.csv ../results/deep/a > ../results/b; mkdir ../made; cp in.csv ../made/c"
    top = f"{sandbox.path}/tmp/copy"
    found = rerun(sandbox, f"--scratch={top}", "--command", ids_of(sandbox, text)[-1])
    assert found[0][1:] == ("ran", {"results/b": "same", "made/c": "same"})
    assert set(contents(top)) == {"data/in.csv", "results/deep/a", "results/b", "made/c"}


@pytest.mark.users("ordinary")
def test_what_a_copy_cannot_have(work, sandbox):
    work.run(f"cat {sandbox.project}/data/in.csv > x")
    ident = ids_of(sandbox, f"cat {sandbox.project}/data/in.csv > x")[-1]
    assert "by their absolute paths" in sandbox.shfs("rerun", "--scratch", "--command", ident, check=4).stderr
    assert not [n for n in os.listdir(f"{sandbox.path}/tmp") if n.startswith("shfs-rerun")]


@pytest.mark.users("ordinary")
def test_missing_version(sandbox, mount, shell):
    sandbox.write_outside(f"{sandbox.project}/big.bin", b"\0\1\2" * 1000)
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\nmax-read-size = 1000\n")
    mount()
    bash = shell()
    bash.run("cksum < big.bin > sum")
    # as long as it is there
    assert rerun(sandbox, "--scratch", "--command", ids_of(sandbox, "cksum < big.bin > sum")[-1])[0][2] == {"sum": "same"}
    bash.run("rm big.bin")
    run = sandbox.shfs("rerun", "--scratch", "--command", ids_of(sandbox, "cksum < big.bin > sum")[-1], check=4)
    assert "needs big.bin@1, which is not archived" in run.stderr


# --- links in a copy ---


def links_below(top):
    """{path: text} of all links."""
    found = (os.path.join(at, name) for at, dirs, files in os.walk(top) for name in dirs + files)
    return {os.path.relpath(path, top): os.readlink(path) for path in found if os.path.islink(path)}


LINKED = """mkdir -p in v1 .git/annex/objects; echo 3 > in/one; seq 5 > in/two; echo 7 > v1/a
mkdir deep; echo 9 > .git/annex/objects/key
ln -s in/one latest; ln -s latest again; ln -s v1 current; ln -s ../.git/annex/objects/key deep/annexed; ln -s "$PWD/in/two" whole"""


@pytest.mark.users("ordinary")
def test_links_are_laid_out_as_they_were(sandbox, mount, shell):
    for line in LINKED.splitlines():
        sandbox.sh(line)
    os.symlink("../project/in/two", f"{sandbox.project}/around")
    mount()
    work = shell()
    text = "cat again current/a deep/annexed around whole > out; sort -r < latest >> out"
    work.run(text)
    made, top = sandbox.read("out"), f"{sandbox.path}/tmp/copy"
    assert made == b"3\n7\n9\n1\n2\n3\n4\n5\n1\n2\n3\n4\n5\n3\n"
    assert rerun(sandbox, f"--scratch={top}", "--command", ids_of(sandbox, text)[-1]) == [(text, "ran", {"out": "same"})]
    # what leads into the project leads into the copy
    assert links_below(top) == {
        "again": "latest", "latest": "in/one", "current": "v1", "deep/annexed": "../.git/annex/objects/key",
        "around": f"{top}/in/two", "whole": f"{top}/in/two",
    }  # fmt: skip
    assert contents(top)["out"] == made


@pytest.mark.users("ordinary")
def test_links_that_lead_elsewhere_now(sandbox, mount, shell):
    sandbox.sh("mkdir v1 v2; echo 1 > v1/a; echo 2 > v2/a; echo 3 > v2/more; ln -s v1 gone; ln -s /nowhere never")
    mount()
    work = shell()
    work.run("ln -s v1 current; ln -s v1/a latest")
    text = "cat current/* > all; cat latest > one; cat gone/a > two"
    work.run(text)
    work.run("ln -sfn v2 current; ln -sfn v2/a latest")
    ident, top = ids_of(sandbox, text)[-1], f"{sandbox.path}/tmp/copy"
    # as it was then: what they said was recorded when they were made, or they still say it
    found = rerun(sandbox, f"--scratch={top}", "--command", ident)
    assert found == [(text, "ran", {"all": "same", "one": "same", "two": "same"})]
    assert links_below(top) == {"current": "v1", "latest": "v1/a", "gone": "v1"} and "v2/a" not in contents(top)
    # with what is there now: also with what is in the other directory
    top += "2"
    found = rerun(sandbox, f"--scratch={top}")
    assert found == [(text, "ran", {"all": "different", "one": "different", "two": "same"})]
    assert links_below(top) == {"current": "v2", "latest": "v2/a", "gone": "v1"}
    assert contents(top)["all"] == b"2\n3\n" and contents(top)["one"] == b"2\n"
    # nobody saw what a link said that was there before, and was replaced
    sandbox.sh("ln -sfn v2 gone")
    run = sandbox.shfs("rerun", "--scratch", "--command", ident, check=4)
    assert "went through the link gone, and where that led is not known" in run.stderr
    sandbox.sh("ln -sfn v1 gone")
    assert rerun(sandbox, "--scratch", "--command", ident)[0][1] == "ran"


@pytest.mark.users("ordinary")
def test_links_that_lead_outside(work, sandbox):
    outside = f"{sandbox.home}/raw"
    os.mkdir(outside)
    for name in "a.csv", "b.csv":
        with open(f"{outside}/{name}", "w") as f:
            f.write(name)
    os.utime(f"{outside}/a.csv", (1, 1))
    work.run(f"ln -s {outside}/a.csv a.csv; ln -s ../raw raw")
    text = "cat a.csv raw/b.csv > out; cat < a.csv >> out"
    work.run(text)
    top = f"{sandbox.path}/tmp/copy"
    assert rerun(sandbox, f"--scratch={top}", "--command", ids_of(sandbox, text)[-1])[0][2] == {"out": "same"}
    assert {name: os.path.realpath(f"{top}/{name}") for name in ("a.csv", "raw")} == {
        "a.csv": f"{outside}/a.csv", "raw": outside,
    }  # fmt: skip


@pytest.mark.users("ordinary")
def test_nothing_is_laid_out_through_a_link(work, sandbox):
    """A step of the copy makes a link where the next one had a directory."""
    outside = f"{sandbox.path}/tmp/outside"
    os.mkdir(outside)
    work.run("echo 1 > seed; mkdir -p d/new; cp data/in.csv d/in.csv; : > where")
    first = "sort seed > one; for x in $(cat where); do ln -s $x d; done"
    work.run(first)
    work.run("cat one d/in.csv > d/new/out")
    work.run(f"echo 2 > seed; echo {outside} > where")
    run = sandbox.shfs("rerun", "--yes", f"--scratch={sandbox.path}/tmp/copy", check=1)
    assert "behind a symbolic link" in run.stderr and os.listdir(outside) == []


# --- names and texts of all kinds ---


@pytest.mark.users("ordinary")
def test_hostile_names(work, sandbox):
    names = ["two words", "it's", "new\nline", "$(touch pwned)", "-dash", "\udcff\x1b[31m", "ünïcödé", "a;b|c&d"]
    for n, name in enumerate(names):
        quoted = "".join(f"\\{b:03o}" for b in name.encode("utf-8", "surrogateescape"))
        work.run(f"sort data/in.csv > ./$'{quoted}'; echo {n} >> ./$'{quoted}'")
    work.run("echo 0 >> data/in.csv")
    run = sandbox.shfs("rerun", "--yes")
    assert "\x1b" not in run.stdout and "8 commands run; results: 0 same, 8 different" in run.stdout
    for n, name in enumerate(names):
        assert sandbox.read(b"./" + name.encode("utf-8", "surrogateescape")) == f"0\n1\n2\n3\n{n}\n".encode()
    assert sandbox.sh("[ ! -e pwned ]") and stale(sandbox) == 0


@pytest.mark.users("ordinary")
def test_texts_of_many_lines(work, sandbox):
    work.run("cat data/in.csv - <<END > a; echo '$(touch pwned) '\"'\\\\\"$'\\x01\\t' \\\n >> a\n1 $((2+3)) %s {}\nEND")
    before = sandbox.read("a")
    work.run("touch data/in.csv; echo >> data/in.csv")
    rerun(sandbox)
    assert sandbox.read("a") == before.replace(b"3\n1 5", b"3\n\n1 5")


# --- completion ---


@pytest.mark.users("ordinary")
def test_completion(study, sandbox):
    def offered(*words):
        return sandbox.shfs("complete", "--", *words).stdout.split("\n")[:-1]

    ident = ids_of(sandbox, SORT)[-1]
    assert any(o.startswith(ident[:7]) for o in offered("rerun", "--command", ident[:5]))
    assert offered("rerun", "con") == [":files"] and offered("rerun", "--scratch", "con") == [":files"]
    assert offered("rerun", "--scratch=") == [":behind =", ":directories"]
