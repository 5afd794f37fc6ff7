#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A history of 1,000 commits, saved file by file: what shfs keeps of it, beside git and restic.

Each commit's changed files are written as an editor without backups does (open, truncate, write,
close): through a mount of shfs, with one `shfs sync` at the end; in a plain directory with `git add -A`
and `git commit` after each commit; and in a plain directory with `restic backup` after each tenth. The
time that the writing takes is counted in all three, so is the CPU of the mount's process. In the end the
size of objects/, of git's pack after `git gc --aggressive --prune=now`, and of restic's repository.

The history: 25 releases of ESLint from the npm registry (JavaScript, 8.0.0 to 8.24.0). The
registry has no commits, so what changes between two releases is cut into commits of a few hunks in one
or two files each, in the order of the files: small changes to real code, as commits are. `--git` takes
the last 1,000 commits of a repository instead, along the first parents.
"""

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import tarfile
import time

import place as places
from place import Place, again_until, cpu_seconds, fail, file_system

TITLE = "a history of 1,000 commits"
COMMITS = 1000
RELEASES = [f"eslint@8.{n}.0" for n in range(25)]
PER_BACKUP = 10
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]


# --- the history: a list of commits, each {path: bytes, or None where it is removed} ---


def releases(where):
    """The files of each release."""
    os.makedirs(where, exist_ok=True)
    names = places.run("npm", "pack", "--silent", *RELEASES, cwd=where).split()
    for name in names:
        files = {}
        with tarfile.open(f"{where}/{name}") as archive:
            for member in archive:
                if member.isfile():
                    files[member.name.split("/", 1)[1]] = archive.extractfile(member).read()
        yield files


def steps(before, after):
    """A file on its way from one release to the next, a hunk at a time."""
    if before is None or after is None:
        return [after]
    a, b = before.splitlines(keepends=True), after.splitlines(keepends=True)
    codes = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    done, found = [], []
    for n, (kind, begin, end, b_begin, b_end) in enumerate(codes):
        done += b[b_begin:b_end]
        if kind != "equal":
            rest = [line for _, i, j, _, _ in codes[n + 1 :] for line in a[i:j]]
            found.append(b"".join(done + rest))
    return found


def of_releases(where, commits):
    """As many commits, the first of which is the first release."""
    all_files = list(releases(where))
    hunks = []
    for before, after in zip(all_files, all_files[1:]):
        for path in sorted(set(before) | set(after)):
            if before.get(path) != after.get(path):
                hunks += [(path, data) for data in steps(before.get(path), after.get(path))]
    history, per = [all_files[0]], len(hunks) / (commits - 1)
    for n in range(commits - 1):
        history.append(dict(hunks[int(n * per) : int((n + 1) * per)]))
    return [commit for commit in history if commit]


def of_repository(path, commits):
    """The last so many commits of a repository, after its state before them."""
    def git(*argv, data=None):
        return subprocess.run(["git", "-C", path, *argv], input=data, capture_output=True, check=True).stdout

    names = git("rev-list", "--first-parent", f"--max-count={commits}", "HEAD").decode().split()[::-1]
    wanted = []
    for n, name in enumerate(names):
        if n == 0:
            lines = git("ls-tree", "-rz", name).decode(errors="surrogateescape").split("\0")[:-1]
            wanted.append({line.split("\t", 1)[1]: line.split()[2] for line in lines if line.split()[1] == "blob"})
            continue
        fields = git("diff-tree", "-rz", "--no-renames", names[n - 1], name).decode(errors="surrogateescape").split("\0")
        changed = {}
        for meta, file in zip(fields[0::2], fields[1::2]):
            _, mode, _, blob, _ = meta.split()
            changed[file] = blob if mode.startswith("100") else None
        wanted.append(changed)
    ids = sorted({blob for commit in wanted for blob in commit.values() if blob})
    stream, at, blobs = git("cat-file", "--batch", data="\n".join(ids).encode()), 0, {}
    for blob in ids:
        head, begin = stream[at : stream.index(b"\n", at)], stream.index(b"\n", at) + 1
        at = begin + int(head.split()[2])
        blobs[blob] = stream[begin:at]
        at += 1
    return [{file: blobs[blob] if blob else None for file, blob in commit.items()} for commit in wanted if commit]


def save(top, commit):
    for path, data in commit.items():
        file = f"{top}/{path}"
        if data is None:
            if os.path.lexists(file):
                os.unlink(file)
            continue
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb", buffering=0) as out:
            out.write(data)


# --- who keeps it: each returns (seconds, seconds of CPU besides the writing, apparent size, size on disk) ---


def size(where):
    """Bytes of the files below, and on the disk, directories too."""
    apparent = sum(os.lstat(f"{d}/{f}").st_size for d, _, files in os.walk(where) for f in files)
    return apparent, int(places.run("du", "-s", "-B1", where).split()[0])


class Shfs:
    """A mount of its own store."""

    def __init__(self, place, name, prefix):
        self.place, self.prefix = place, prefix
        self.store, self.top = f"{place.work}/{name}.store", f"{place.work}/{name}"
        os.makedirs(self.top)

    def command(self, *argv, cwd="/"):
        env = {**self.place.environment(self.place.users["root"]), "SHFS_STORE": self.store}
        done = subprocess.run([f"{self.prefix}/bin/shfs", *argv], cwd=cwd, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            fail(f"shfs {argv[0]}: {done.stderr}")
        return done.stdout

    def status(self):
        text = os.getxattr(self.top, "user.shfs.status").decode()
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def __enter__(self):
        self.command("mount", self.top)
        self.pid = int(self.status()["pid"])
        return self

    def __exit__(self, *_):
        again_until(lambda: subprocess.run([f"{self.prefix}/bin/shfs", "umount", self.top], capture_output=True,
                                           env={**os.environ, "SHFS_STORE": self.store}).returncode == 0, 20)

    def sync(self):
        os.getxattr(self.top, "user.shfs.sync")


def with_shfs(place, history):
    with Shfs(place, "shfs", place.prefix) as mount:
        before, begin = cpu_seconds(mount.pid), time.perf_counter()
        for commit in history:
            save(mount.top, commit)
        written = time.perf_counter() - begin
        mount.sync()
        seconds, cpu = time.perf_counter() - begin, cpu_seconds(mount.pid) - before
        status = mount.status()
    if int(status["lost"]) or int(status["incomplete"]):
        fail(f"shfs lost some of it: {status}")
    return seconds, cpu, *size(f"{mount.store}/objects"), written


def cpu_of_children(work):
    usage = os.times()
    seconds = work()
    after = os.times()
    return seconds, after.children_user + after.children_system - usage.children_user - usage.children_system


def with_git(place, history):
    top = f"{place.work}/git"
    os.makedirs(top)
    places.run(*GIT, "init", "-q", cwd=top)

    def work():
        begin = time.perf_counter()
        for commit in history:
            save(top, commit)
            places.run(*GIT, "add", "-A", cwd=top)
            places.run(*GIT, "commit", "-q", "--allow-empty", "-m", "saved", cwd=top)
        return time.perf_counter() - begin

    seconds, cpu = cpu_of_children(work)
    loose = size(f"{top}/.git/objects")
    places.run(*GIT, "gc", "-q", "--aggressive", "--prune=now", cwd=top)
    packs = f"{top}/.git/objects/pack"
    pack = sum(os.stat(f"{packs}/{f}").st_size for f in os.listdir(packs) if f.endswith(".pack"))
    return seconds, cpu, pack, size(f"{top}/.git/objects")[1], loose


def with_restic(place, history):
    top, repository = f"{place.work}/restic", f"{place.work}/restic.repository"
    os.makedirs(top)
    restic = ["env", "RESTIC_PASSWORD=bench", "restic", "-q", "--no-cache", "-r", repository]
    places.run(*restic, "init")

    def work():
        begin = time.perf_counter()
        for n, commit in enumerate(history):
            save(top, commit)
            if n % PER_BACKUP == 0 or n == len(history) - 1:
                places.run(*restic, "backup", ".", cwd=top)
        return time.perf_counter() - begin

    seconds, cpu = cpu_of_children(work)
    return seconds, cpu, *size(repository)


def of_files(place, prefix, name, source):
    """cp -r of the tree through a mount: seconds until cp returns, until all is durable, CPU, objects/."""
    with Shfs(place, name, prefix) as mount:
        before, begin = cpu_seconds(mount.pid), time.perf_counter()
        places.run("cp", "-r", source, f"{mount.top}/tree")
        copied = time.perf_counter() - begin
        mount.sync()
        done, cpu = time.perf_counter() - begin, cpu_seconds(mount.pid) - before
    sizes = size(f"{mount.store}/objects")
    shutil.rmtree(mount.store)
    shutil.rmtree(mount.top)
    return copied, done, cpu, *sizes


# --- what comes out ---


def mib(n):
    return f"{n / (1 << 20):.2f}"


def run_on(place, history, title, rivals=True):
    """The table for a history."""
    contents = [data for commit in history for data in commit.values() if data is not None]
    total = sum(map(len, contents))
    lines = [f"{title}: {len(history)} commits, {len(contents)} saves, {mib(total)} MiB written.", "",
             "| | seconds | MB/s saved | saves/s | CPU s | bytes kept, MiB | on disk, MiB |",
             "|---|---|---|---|---|---|---|"]

    def row(name, seconds, cpu, kept, disk):
        lines.append(f"| {name} | {seconds:.1f} | {total / seconds / 1e6:.1f} | {len(contents) / seconds:.0f} | "
                     f"{cpu:.1f} | {mib(kept)} | {mib(disk)} |")

    shfs = with_shfs(place, history)
    row("shfs, to the end of `shfs sync`", *shfs[:4])
    git = with_git(place, history)
    row("git add + commit; the pack of gc --aggressive", *git[:4])
    if rivals:
        row(f"restic backup, each {PER_BACKUP} commits", *with_restic(place, history))
    lines += ["", f"objects/ is {shfs[2] / git[2]:.2f} x git's pack. Before gc git had {mib(git[4][0])} MiB "
              f"({mib(git[4][1])} on disk)."]
    return "\n".join(lines) + "\n"


def run_with(place, history, title, rivals):
    try:
        return run_on(place, history, title, rivals)
    finally:
        for name in ("shfs", "git", "restic"):
            shutil.rmtree(f"{place.work}/{name}", ignore_errors=True)


def run(place, quick, repository=None):
    commits = 60 if quick else COMMITS
    if repository:
        return run_with(place, of_repository(repository, commits), repository, not quick)
    return run_with(place, of_releases(f"{place.work}/npm", commits), "ESLint 8.0.0 to 8.24.0", not quick)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", required=True, help="where shfs is installed")
    parser.add_argument("--git", metavar="DIR", help="the last 1,000 commits of this repository instead")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--files", type=int, metavar="N", help="cp -r of so many small files instead")
    parser.add_argument("--against", metavar="PREFIX", help="with --files: another shfs, turn by turn")
    args = parser.parse_args()
    with file_system("8G", 1000000) as work:
        place = Place(work, args.prefix)
        if not args.files:
            print(run(place, args.quick, args.git), end="")
            return
        import fixture  # pylint: disable=import-outside-toplevel
        fixture.tree(work, args.files)
        for turn in range(3):
            for prefix in filter(None, (args.prefix, args.against)):
                copied, done, cpu, apparent, disk = of_files(place, prefix, "files", f"{work}/tree")
                print(f"{prefix}: cp {copied:.2f} s, durable {done:.2f} s, CPU {cpu:.2f} s, "
                      f"objects {mib(apparent)} MiB, on disk {mib(disk)} MiB")


if __name__ == "__main__":
    sys.exit(main())
