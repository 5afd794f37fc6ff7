# SPDX-License-Identifier: MIT
"""Test suites of others, run on a mount and on the ext4 below it: equal outcomes. What differs is
explained in docs/mount.md. SHFS_TEST_LONG=1 makes all of them longer."""

import concurrent.futures
import os
import re
import shutil
import subprocess

import pytest

import harness

LONG = os.environ.get("SHFS_TEST_LONG") == "1"
FSX = os.path.join(os.path.dirname(__file__), "fsx.py")

pytestmark = [pytest.mark.users("root"), pytest.mark.timeout(600 if LONG else 120), pytest.mark.backends(by_hand=True)]


class Disk:
    def __init__(self, sandbox, where):
        self.sandbox, self.below, self.above = sandbox, f"{where}/below", f"{where}/above"
        for top in self.below, self.above:
            os.mkdir(top)
            os.chmod(top, 0o777)
        self.lower = os.open(self.above, os.O_RDONLY)  # of what the mount covers
        sandbox.mount(self.above, "--allow-other")

    def both(self, run):
        """run(directory) in a new directory below and above, at once: both results."""
        tops = [os.path.join(top, "work") for top in (self.below, self.above)]
        for top in tops:
            os.mkdir(top)
            os.chmod(top, 0o777)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            results = list(pool.map(run, tops))
        for top in tops:
            # one of them may end while a file of it is immutable
            subprocess.run(["chattr", "-R", "-f", "-ai", top], check=False)
            subprocess.run(["rm", "-rf", top], check=True)
        return results


@pytest.fixture
def disk(sandbox):
    with harness.disk(sandbox, 8192 if LONG else 1024, "-O", "^has_journal", "-i", "8192") as where:
        both = Disk(sandbox, where)
        try:
            yield both
        finally:
            os.close(both.lower)


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


# --- stress-ng ---

# Those of the class that are about files, with what keeps each small. bind-mount, binderfs, eventfd
# and procfs are about other things; fiemap skips itself on every FUSE (docs/mount.md).
STRESSORS = {
    "access": "", "chattr": "", "chdir": "--chdir-dirs 64", "chmod": "", "chown": "", "copy-file": "--copy-file-bytes 128M",
    "dentry": "--dentries 256", "dir": "--dir-dirs 64", "dirdeep": "--dirdeep-inodes 200", "dirmany": "",
    "dnotify": "", "dup": "", "fallocate": "--fallocate-bytes 4M", "fanotify": "", "fcntl": "",
    "file-ioctl": "", "filename": "--filename-opts posix", "flock": "", "fpunch": "", "fsize": "", "fstat": "--fstat-dir .",
    "getdent": "", "handle": "", "hdd": "--hdd-bytes 4M", "inode-flags": "", "inotify": "", "io": "",
    "iomix": "--iomix-bytes 4M", "lease": "", "link": "", "locka": "", "lockf": "", "lockofd": "",
    "mknod": "", "open": "", "rename": "", "symlink": "", "sync-file": "--sync-file-bytes 4M", "touch": "",
    "utime": "", "verity": "", "xattr": "",
}  # fmt: skip
NOT_OF_INTEREST = re.compile(r"dispatching|completed|setting to|for a \d|removing|metrc|passed|prematurely|unmount|info:.*allocated|note:|disabled|PRIO|nice")


def stress(name, where, user):
    """(status, what was failed or skipped)"""
    as_user = [] if user == "root" else ["setpriv", "--reuid=2001", "--regid=2001", "--clear-groups"]
    where = os.path.join(where, f"{name}-{user}")
    os.mkdir(where)
    os.chmod(where, 0o777)
    argv = [*as_user, "stress-ng", f"--{name}", "2", "--timeout", "5" if LONG else "1", "--verify"]
    argv += ["--temp-path", where, *STRESSORS[name].split()]
    done = subprocess.run(argv, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    lines = {re.sub(r"\d+", "N", line) for line in done.stdout.decode().splitlines() if not NOT_OF_INTEREST.search(line)}
    return done.returncode, sorted(lines)


def test_stress_ng(disk):
    need("stress-ng")
    users = ("root", "other") if LONG else ("other",)
    names = list(STRESSORS) if LONG or harness.ALL else list(STRESSORS)[::2]
    jobs = [(name, user) for name in names for user in users]

    def run(where):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda job: stress(job[0], where, job[1]), jobs))

    below, above = disk.both(run)
    differ = [f"{job}: below {b}, above {a}" for job, b, a in zip(jobs, below, above) if a != b]
    assert not differ, "\n".join(differ)
    assert sum(status == 0 for status, _ in above) > len(jobs) * 3 // 4


# --- fio, dbench ---


@pytest.mark.parametrize("engine", ["psync", "mmap", "io_uring", *(["sync", "pvsync2", "libaio", "splice"] if LONG or harness.ALL else [])])
def test_fio(disk, engine):
    """Random writes, each verified by its checksum."""
    need("fio")
    argv = ["fio", "--name=x", f"--ioengine={engine}", "--rw=randwrite", "--bs=512-64k", "--verify=crc32c"]
    argv += ["--size=64M" if LONG else "--size=4M", "--numjobs=2", "--iodepth=4", "--verify_fatal=1"]
    argv += ["--fallocate=none", "--minimal"]

    def run(where):
        return [
            subprocess.run([*argv, *more, f"--directory={where}"], cwd=where, stdout=subprocess.PIPE, timeout=300, check=False).returncode
            for more in ([], ["--rw=randrw", "--direct=1", "--bs=4k"], ["--fsync=8"])
        ]

    below, above = disk.both(run)
    assert below == above
    assert engine in ("io_uring", "splice") or above[0] == 0


def test_dbench(disk):
    need("dbench")

    def run(where):
        argv = ["dbench", "-t", "60" if LONG else "2", "-D", where, "4"]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        return done.returncode, re.findall("(?i).*(?:fail|error|unlink).*[^0-9. ]$", done.stdout.decode())

    below, above = disk.both(run)
    assert below == above and above[0] == 0


# --- random operations ---


@pytest.mark.parametrize("seed", range(60 if LONG else 4 if harness.ALL else 2))
def test_random_operations(disk, seed):
    for top in disk.below, disk.above:
        beneath = disk.lower if top == disk.above else os.open(top, os.O_RDONLY)
        argv = ["/usr/bin/python3", "-B", FSX, str(seed), "3000" if LONG else "1000", top, str(beneath)]
        done = subprocess.run(argv, pass_fds=[beneath], stderr=subprocess.PIPE, timeout=300, check=False)
        assert done.returncode == 0, done.stderr.decode()
        if top == disk.below:
            os.close(beneath)


# --- git, sqlite ---

GIT = r"""
set -e
export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
export GIT_AUTHOR_DATE='1600000000 +0000' GIT_COMMITTER_DATE='1600000000 +0000'
git init -q -b main one; cd one; git config gc.auto 0
for i in $(seq $1); do
  mkdir -p d$((i % 7)); seq $i $((i + 20)) > d$((i % 7))/f$((i % 13)); git add -A; git commit -qm "commit $i"
done
git checkout -qb side HEAD~10; echo side > side; git add side; git commit -qm side; git rebase -q main
echo stashed > side; git stash -q; test "$(cat side)" = side; git stash pop -q; test "$(cat side)" = stashed; git checkout -q side
git worktree add -q ../tree HEAD~5; (cd ../tree; git status --porcelain; rm -r d1; git checkout -q .; git status --porcelain); git worktree remove ../tree
git gc -q --prune=now; git fsck --strict --no-progress; git repack -qad; git bisect start -q HEAD HEAD~20 > /dev/null; git bisect run false > /dev/null 2>&1 || true; git bisect reset -q 2> /dev/null || true
git clone -q --local . ../two; cd ../two; git fsck --no-progress; git reset -q --hard HEAD~3; git clean -qfd; git status --porcelain
git log --format='%H %T' --all | head -50; git ls-files -s
cd ..; find . -path ./one/.git -prune -o -path ./two/.git -prune -o -printf '%p %M %n %s\n' | sort
"""


def test_git(disk):
    def run(where):
        argv = ["bash", "-c", GIT, "git", "200" if LONG else "60"]
        done = subprocess.run(argv, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        return done.returncode, re.sub(rb" \d+$", b"", done.stdout)

    below, above = disk.both(run)
    assert below == above and above[0] == 0, above[1][-2000:]


SQLITE = r"""
set -e
for mode in delete truncate persist wal; do
  db=$mode.db
  sqlite3 $db "pragma journal_mode=$mode; create table t (a integer primary key, who, b blob); create index i on t (b);"
  for who in 1 2; do
    for n in $(seq $1); do echo ".timeout 60000"; echo "begin immediate; insert into t (who, b) values ($who, randomblob(3000)); update t set b = zeroblob(10) where a % 5 = 0; commit;"; done |
      sqlite3 -bail $db &
    pids="$pids $!"
  done
  for p in $pids; do wait $p; done; pids=
  sqlite3 $db "pragma integrity_check; select count(*), count(distinct who) from t; pragma wal_checkpoint(truncate); vacuum; select sum(length(b)) > 0 from t; pragma integrity_check;"
  sqlite3 $db ".dump" | sqlite3 dumped-$db; sqlite3 dumped-$db "select count(*) from t; pragma quick_check;"
  sqlite3 $db ".backup copy.db"; sqlite3 copy.db "pragma integrity_check; select count(*) from t;"; rm copy.db
done
sqlite3 mapped.db "pragma mmap_size=100000000; create table t as with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) select x, hex(x) h from c; select sum(x), max(h) from t; pragma integrity_check;"
ls
"""


def test_sqlite(disk):
    need("sqlite3")

    def run(where):
        argv = ["bash", "-c", SQLITE, "sqlite", "200" if LONG else "25"]
        done = subprocess.run(argv, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        return done.returncode, done.stdout.decode()

    below, above = disk.both(run)
    assert below == above and above[0] == 0, (below, above)
