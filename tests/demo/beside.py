#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What docs/comparison.md says of DataLad, ReproZip and restic, tried again on the study of the demo, shfs beside them.

usage: beside.py DIR [TOOL...]    DIR holds install/; TOOL is datalad, reprozip, restic or shfs

Shows each command with what it printed, and each statement with yes or NO. Ends with 0 if no statement is
wrong. Run it as an ordinary user: root may write to what is locked."""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATE = "python3 simulate.py config.yaml data/towns.csv > cases.csv"
MORE_SEASON = "echo 'season: 0.3' >> config.yaml"


class Trial:
    """A home with the study in it, and a shell's words for each step."""

    def __init__(self, top, name):
        self.home, self.wrong = f"{top}/beside-{name}", []
        self.study = f"{self.home}/study"
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(f"{HERE}/study", self.study)
        self.env = {
            "HOME": self.home, "PATH": f"{top}/install/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
            "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org", "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "ann@example.org", "RESTIC_PASSWORD": "beside", "RESTIC_REPOSITORY": f"{self.home}/backup",
            "REPROZIP_USAGE_STATS": "off", "REPROUNZIP_USAGE_STATS": "off", "PYTHONDONTWRITEBYTECODE": "1", "SHFS_PAGER": "cat",
        }  # fmt: skip
        print(f"\n--- {name}")

    def run(self, line, cwd=None):
        """The output of a line. What ended it with another status than 0 is shown."""
        ran = subprocess.run(
            ["bash", "-c", line], cwd=cwd or self.study, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="backslashreplace", check=False,
        )  # fmt: skip
        ended = f"    ended with {ran.returncode}\n" if ran.returncode else ""
        print(f"$ {line}\n" + "".join(f"    {text}\n" for text in ran.stdout.splitlines()) + ended, end="", flush=True)
        return ran.stdout

    def say(self, statement, holds):
        print(f"{'yes' if holds else 'NO '}  {statement}")
        if not holds:
            self.wrong.append(statement)

    def read(self, name):
        with open(f"{self.study}/{name}", encoding="utf-8") as file:
            return file.read()


def datalad(trial):
    run, say = trial.run, trial.say
    run("datalad --version; git-annex version --raw; echo")
    run("datalad -l warning create --force && datalad -l warning save -m 'as it came'")
    say("a saved file is locked: it cannot be changed in place", "denied" in run(MORE_SEASON))
    run(f"datalad -l warning unlock config.yaml && {MORE_SEASON}")
    refused = run(f"datalad run -m cases -i config.yaml -i data/towns.csv -o cases.csv '{SIMULATE}'")
    say("datalad run refuses while something is not saved", "clean dataset required" in refused)
    run("echo 'season: 0.2' >> config.yaml; datalad -l warning save -m 'two changes'")
    say("of two changes between two saves one version is kept", run("git log --oneline config.yaml").count("\n") == 2)
    run(f"datalad -l warning run -m cases -i config.yaml -i data/towns.csv -o cases.csv '{SIMULATE}'")
    run("datalad -l warning run -m peaks 'sh peaks.sh cases.csv > peaks.txt'")
    record = run("git log -1 --format=%B peaks.txt")
    say("inputs are those that were declared, and no others", '"inputs": []' in record)
    say("what is new is saved, declared or not", "[DATALAD RUNCMD] peaks" in record)
    run("datalad -l warning run -m bad 'echo half > half.txt; exit 3'")
    say("a command that fails makes no commit", "peaks" in run("git log -1 --format=%s"))
    run("rm half.txt; sh peaks.sh cases.csv > by-hand.txt; datalad -l warning save -m 'by hand'")
    say("what is typed without datalad run is saved without its command", "RUNCMD" not in run("git log -1 --format=%B by-hand.txt"))
    before = run("git rev-parse HEAD")
    again = run("datalad rerun --since=")
    say("a rerun runs all commands of the range, also where no input has changed", again.count("run commit") == 2)
    say("what comes out the same makes no commit", run("git rev-parse HEAD") == before)
    run("datalad -l warning clone study copy", trial.home)
    missing = run("cat copy/data/towns.csv", trial.home)
    run("cd copy && datalad -l warning get data/towns.csv", trial.home)
    got = run("cat copy/data/towns.csv", trial.home)
    say("a clone has a content once it is asked for", "No such file" in missing and got == trial.read("data/towns.csv"))


def reprozip(trial):
    run, say = trial.run, trial.say
    run("dpkg-query -W reprozip reprounzip")
    run("reprozip trace -d trace sh run.sh; sed -n '/^runs:/,/^- .*id:/p' trace/config.yml | grep -A1 -E 'argv|exitcode|workingdir'")
    run(f"cp config.yaml as-it-was; {MORE_SEASON}")
    run("reprozip pack -d trace run.rpz")
    packed = run(f"tar -xOf run.rpz DATA.tar.gz | tar -xzO DATA{trial.study}/config.yaml")
    say("the pack has what the inputs are when it is made, after the run", "season" in packed)
    run("mv as-it-was config.yaml; sha256sum figure.txt > sum; reprozip pack -d trace again.rpz")
    run("(reprounzip directory setup again.rpz ~/unpacked && rm -f ~/unpacked/root$PWD/figure.txt && reprounzip directory run ~/unpacked) > log 2>&1; tail -n 1 log")
    figure = run(f"sha256sum ~/unpacked/root{trial.study}/figure.txt")
    say("unpacked elsewhere it makes the same figure", figure[:64] == trial.read("sum")[:64])
    run("reprozip trace -d trace --continue cat figure.txt > shown")
    say("several runs go into one trace", run("grep -c '^- architecture' trace/config.yml").strip() == "2")
    run("reprounzip --help 2>/dev/null | sed -n '/subcommands/,$p'")


def restic(trial):
    run, say = trial.run, trial.say
    run("restic version")
    run("restic -q init && restic -q backup ~/study")
    run(f"sed -i s/0.30/0.21/ config.yaml; {MORE_SEASON}; restic -q backup ~/study; restic snapshots -c")
    found = run(f"restic -q find {trial.study}/config.yaml")
    say("of two changes between two backups one content is kept", found.count("config.yaml") == 2)
    ids = """$(restic snapshots --json | grep -o '"short_id":"[0-9a-f]*' | cut -d'"' -f4)"""
    say("it says which files differ between two backups", "M    " in run(f"restic diff {ids}"))
    run("rm data/towns.csv; restic -q restore latest --target ~/back --include towns.csv")
    say("a file that was never changed comes back", os.path.exists(f"{trial.home}/back{trial.study}/data/towns.csv"))
    run("mkdir ~/m; restic -q mount ~/m >log 2>&1 & for i in {1..20}; do sleep 0.5; ls ~/m/snapshots 2>/dev/null && break; done"
        f"; cat ~/m/snapshots/latest{trial.study}/config.yaml; fusermount3 -u ~/m; wait")  # fmt: skip
    run("restic -q forget --keep-last 1 --prune; restic snapshots -c")
    say("nothing in the repository can be read", run("grep -rl contacts ~/backup") == "")


def shfs(trial):
    run, say = trial.run, trial.say
    run("shfs --version; shfs mount ~/study", trial.home)
    try:
        run("shfs record --bundle sh run.sh")
        at = run("sleep 1; date +%FT%T; sleep 1").strip()
        run(f"shfs run sh -c \"sed -i s/0.30/0.21/ config.yaml; {MORE_SEASON}\"")
        say("each version of a file is kept", run("shfs log config.yaml").count("config.yaml@") == 3)
        say("inputs need not be declared", "config.yaml@1" in run("shfs why figure.txt"))
        run(f"shfs restore ~/study'@{{{at}}}' --to ~/back")
        run("cat ~/back/config.yaml")
        run("mkdir ~/m && shfs browse ~/study ~/m && ls ~/m/versions/config.yaml; shfs umount ~/m")
        run("shfs export bundle figure.txt -o ~/bundle && ~/bundle/run.sh")
        run("shfs export oci figure.txt -o ~/image.tar; shfs export dockerfile figure.txt -o ~/docker; ls ~/docker")
        run("shfs remote add there ~/there && shfs push && shfs prune --keep-last 1")
        run("rm data/towns.csv plot.awk; shfs undelete -l; shfs undelete .")
    finally:
        run("shfs umount ~/study", trial.home)


TOOLS = {"datalad": datalad, "reprozip": reprozip, "restic": restic, "shfs": shfs}


def main():
    top, tools = (sys.argv[1], sys.argv[2:] or list(TOOLS)) if len(sys.argv) > 1 else sys.exit(__doc__)
    wrong = []
    for name in tools:
        trial = Trial(top, name)
        try:
            TOOLS[name](trial)
        finally:
            subprocess.run(["chmod", "-R", "u+w", trial.home], check=False)  # git-annex takes it away
            shutil.rmtree(trial.home, ignore_errors=True)
        wrong += trial.wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
