# SPDX-License-Identifier: MIT
"""System calls that fail, one by one: of what records a directory, of ingest, and of the queries
that write. A site is the Nth call of a name (of each thread, as strace counts); the sites are those
of a run in which nothing fails. The errors come by turns.

A sample of the sites is tried, and all of them with SHFS_TEST_LONG (`./dev inject`)."""

import contextlib
import glob
import json
import mmap
import os
import random
import re
import subprocess

import pytest

import harness
from harness import PATIENCE, wait_until
from twins import PRELUDE

SANITIZED = b"__asan_init" in open(f"{harness.PREFIX}/libexec/shfs/shfs-fuse", "rb").read()
LONG = "SHFS_TEST_LONG" in os.environ
USERS = ["root", "ordinary"] if LONG else ["ordinary"]
TRANSPORTS = pytest.mark.transports if LONG else lambda test: test
DISK = ["ENOSPC", "EIO", "EDQUOT", "EROFS"]
LACK = ["ENOMEM", "EMFILE", "EIO"]
ERRORS = {
    "mmap": ["ENOMEM"], "mprotect": ["ENOMEM"], "madvise": ["ENOMEM"], "mremap": ["ENOMEM"], "brk": ["ENOMEM"],
    "clone3": ["EAGAIN"], "clone": ["EAGAIN"], "write": DISK, "pwrite64": DISK, "pwritev": DISK, "pwritev2": DISK,
    "fdatasync": DISK, "fsync": DISK, "ftruncate": DISK, "fallocate": DISK, "mkdirat": DISK, "mkdir": DISK,
    "linkat": DISK, "symlinkat": DISK, "renameat": DISK, "renameat2": DISK, "rename": DISK, "unlinkat": DISK,
    "unlink": DISK, "openat": [*DISK, *LACK], "openat2": [*DISK, *LACK], "fsetxattr": DISK, "setxattr": DISK,
}
# What cannot fail, or never returns; and what an injected call would leave open or mapped.
NEVER = set("""close munmap exit exit_group futex restart_syscall rt_sigreturn rt_sigprocmask rt_sigaction
gettid getpid getppid getuid geteuid getgid getegid umask sched_yield clock_nanosleep clock_gettime poll ppoll
execve set_robust_list rseq arch_prctl set_tid_address sigaltstack rt_sigtimedwait wait4 prlimit64 getrandom
personality sched_getaffinity getpgid""".split())
if SANITIZED:  # whose own memory that is
    NEVER |= {"mmap", "mprotect", "madvise", "mremap", "brk"}


def inject(site):
    call, nth, how = site
    return ["-e", f"trace={call}", "-e", f"inject={call}:{how}:when={nth}"]


def sites_of(trace):
    """Each of a trace in which nothing failed, with errors by turns."""
    counts, found = {}, []
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = re.match(r"(\d+) +(\w+)\(", line)
            if match and match[2] not in NEVER:
                counts[match[1], match[2]] = counts.get(match.groups(), 0) + 1
    most = {}
    for (_, call), n in counts.items():
        most[call] = max(most.get(call, 0), n)
    for call, n in sorted(most.items()):
        errors = ERRORS.get(call, LACK)
        found += [(call, nth, f"error={errors[nth % len(errors)]}") for nth in range(1, n + 1)]
    return found


def injected(trace):
    """The calls that failed, as strace shows them."""
    begun, found = {}, []
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            pid = line.split(" ", 1)[0]
            if "<unfinished" in line:
                begun[pid] = line
            if "INJECTED" in line:
                found.append(begun.get(pid, "") + line if "resumed>" in line else line)
    return found


def sample(found, n, seed):
    if "SHFS_TEST_SITES" in os.environ:
        return [site for site in found if re.search(os.environ["SHFS_TEST_SITES"], str(site))]
    return found if LONG else random.Random(seed).sample(found, min(n, len(found)))


# --- a mount ---

# Each call again if it fails, as a person would; what was told is printed. A call that failed
# may have done its work all the same.
WORK = r"""
import random
ONCE = {"mkdir": "EEXIST", "link": "EEXIST", "symlink": "EEXIST", "unlink": "ENOENT", "rename": "ENOENT"}
def do(what, *args, **options):
    for n in range(9):
        try:
            return what(*args, **options)
        except OSError as error:
            name = errno.errorcode[error.errno]
            if n and ONCE.get(what.__name__) == name: return None
            say("told", what.__name__, name)
            if what is os.close: return None
    say("wrong", what.__name__, args)
def data(key, size=3000):
    return random.Random(trial + key).randbytes(size)
def put(name, what, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, at=None):
    fd = do(os.open, name, flags, 0o644)
    while what:
        n = do(os.write, fd, what) if at is None else do(os.pwrite, fd, what, at)
        what = what[n:]
        at = at if at is None else at + n
    do(os.close, fd)
def get(name):
    fd, all = do(os.open, name, os.O_RDONLY), b""
    while (more := do(os.read, fd, 1 << 20)): all += more
    do(os.close, fd)
    return all
def expect(name, what):
    if get(name) != what: say("wrong content", name)
def main():
    a, b = data("a1") + data("a2"), data("b", 300000)
    do(os.chdir, f"{top}/{trial}")
    put("old", data("new"))
    put("a", data("a0")); put("a", data("a1")); put("a", data("a2"), os.O_WRONLY | os.O_APPEND)
    put("b", b); put("b", data("b2"), os.O_WRONLY, 1000)
    b = b[:1000] + data("b2") + b[4000:]
    do(os.mkdir, "d"); put("d/x", data("x")); do(os.rename, "d/x", "d/y"); do(os.rename, "d", "e")
    put("z", data("z1")); put("z.tmp", data("z2")); do(os.rename, "z.tmp", "z")
    put("gone", data("gone")); do(os.unlink, "gone")
    put("t", data("t")); do(os.truncate, "t", 10); do(os.chmod, "t", 0o600); do(os.utime, "t", (5, 5))
    do(os.link, "a", "l"); do(os.symlink, "a", "s")
    put("m", data("m1"))
    fd = do(os.open, "m", os.O_RDWR); m = do(mmap.mmap, fd, 0); m[:3000] = data("m2"); do(m.flush); m.close()
    do(os.fsync, fd); do(os.close, fd)
    for n in range(9):
        if not subprocess.run(["sh", "-c", "exec cat a > sub"], stderr=subprocess.DEVNULL).returncode: break
        say("told sh")
    for name, what in ("old", data("new")), ("a", a), ("b", b), ("e/y", data("x")), ("z", data("z2")), \
            ("t", data("t")[:10]), ("l", a), ("s", a), ("m", data("m2")), ("sub", a):
        expect(name, what)
    if sorted(do(os.listdir, ".")) != sorted("old a b e z t l s m sub".split()): say("wrong names")
    if do(os.listdir, "e") != ["y"] or do(os.readlink, "s") != "a": say("wrong names")
    if oct(do(os.stat, "t").st_mode) != "0o100600" or do(os.stat, "t").st_mtime != 5: say("wrong attributes")
    say("done")
main()
"""


def data(trial, key, size=3000):
    return random.Random(trial + key).randbytes(size)


def history(trial):
    """What each file of a trial has held, in order."""
    def d(key, size=3000):
        return data(trial, key, size)
    a, b = d("a1") + d("a2"), d("b", 300000)
    return {
        "old": [d("old", 100000), d("new")], "a": [d("a0"), d("a1"), a], "b": [b, b[:1000] + d("b2") + b[4000:]],
        "e/y": [d("x")], "z": [d("z1"), d("z2")], "gone": [d("gone")], "t": [d("t"), d("t")[:10]],
        "m": [d("m1"), d("m2")], "sub": [a],
    }


def made(trial):
    """What is there at its end."""
    found = {name: contents[-1] for name, contents in history(trial).items() if name != "gone"}
    return {**found, "l": found["a"]}


def is_of(line, fds):
    """A call of shfs alone: on one of these descriptors, or on what it asks of /proc."""
    return re.search(r"\w\((\w*)", line)[1] in fds or '"/proc' in line


class Trials:
    """One mount, and what was tried on it."""

    def __init__(self, sandbox, names):
        self.sandbox, self.names, self.told = sandbox, iter(names), {}
        self.problems, self.reached, self.sites, self.ended = [], 0, {}, None
        self.trace = f"{sandbox.path}/tmp/trace"
        for name in names:
            directory = sandbox.mkdir(f"{sandbox.project}/{name}")
            sandbox.write_outside(f"{directory}/old", data(name, "old", 100000))
        plain = dict(sandbox.env)
        sandbox.env.update(getattr(sandbox, "daemon_env", {}))
        self.mount = sandbox.mount()
        sandbox.env.clear()
        sandbox.env.update(plain)

    @contextlib.contextmanager
    def traced(self, *options):
        pid = self.mount.process.pid
        # not -y: it would ask the mount for files whose server it has stopped
        argv = ["strace", "-f", "-qq", "-o", self.trace, *options, "-p", str(pid)]
        with subprocess.Popen(argv) as strace:
            try:
                mark, tasks = f"TracerPid:\t{strace.pid}\n", f"/proc/{pid}/task"
                wait_until(lambda: all(mark in open(f"{tasks}/{t}/status").read() for t in os.listdir(tasks)), "strace")
                yield
            finally:
                strace.terminate()

    def sync(self):
        """Whether all of it was recorded."""
        argv = "getfattr", "--only-values", "--absolute-names", "-n", "user.shfs.sync", self.mount.directory
        return self.sandbox.run(*argv, check=False).status == 0

    def fds_of_store(self):
        fds, found = f"/proc/{self.mount.process.pid}/fd", set()
        for fd in os.listdir(fds):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(f"{fds}/{fd}").startswith(self.sandbox.store):
                    found.add(fd)
        return found

    def lost(self):
        status = self.mount.status()
        return sum(int(status[what]) for what in ("lost", "incomplete", "skipped"))

    def work(self, name):
        script = f"from prelude import *\ntop, trial = {self.sandbox.project!r}, '{name}'\n{WORK}"
        prelude = self.sandbox.write_outside(f"{self.sandbox.path}/prelude.py", PRELUDE)
        argv, pipe = ["/usr/bin/python3", "-B", "-c", script], subprocess.PIPE
        worker = self.sandbox.popen(argv, env={"PYTHONPATH": os.path.dirname(prelude)}, cwd="/", stdout=pipe, stderr=pipe)
        try:
            out, err = worker.communicate(timeout=10 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.ended = self.end()  # or its caller cannot be killed
            raise
        return out.decode().splitlines() + err.decode().splitlines()

    def count(self):
        """The sites."""
        name = next(self.names)
        with self.traced():
            assert self.work(name) == ["done"]
            assert self.sync()
        self.told[name] = False
        return sites_of(self.trace)

    def one(self, site):
        """A call fails."""
        self.trial(site, self.traced(*inject(site)), lambda: injected(self.trace))

    def trial(self, site, fault, what_failed):
        """Who works is told of failures on his files alone, nothing is lost untold, and it goes on."""
        name, before, of_store = next(self.names), self.lost(), self.fds_of_store()
        with fault:
            said = self.work(name)
            synced = self.sync()
        of_store &= self.fds_of_store()
        # by itself, and soon
        wait_until(lambda: self.mount.status()["error"] == "0", f"{site}: the recording to go on")
        again = self.sync()
        failed = what_failed()
        self.sites[name] = site, failed
        self.reached += bool(failed)
        self.told[name] = not synced or not again or self.lost() > before or any(s.startswith("told") for s in said)
        wrong = [s for s in said if not s.startswith(("done", "told"))]
        if isinstance(failed, list) and failed and all(is_of(f, of_store) for f in failed):
            wrong += [s for s in said if s.startswith("told")]
        if wrong or "done" not in said:
            self.problems.append((site, failed, said[-9:]))
            del self.told[name]

    def check(self):
        """All that was tried, once it is over."""
        self.mount.unmount()
        for name, told in self.told.items():
            top = f"{self.sandbox.project}/{name}"
            for path, content in made(name).items():
                if self.sandbox.run("cat", f"{top}/{path}", check=False).stdout_bytes != content:
                    self.problems.append((self.sites.get(name), path, "is wrong"))
            for path, expected in history(name).items():
                # that it was empty once may be told where it was not asked to be
                got = [content for content in recorded(self.sandbox, f"{top}/{path}") if content]
                if got != expected and not (told and is_part(got, expected)):
                    self.problems.append((self.sites.get(name), path, told, [len(c) for c in got]))

    def end(self):
        """It hangs, or has died: what it did, after which it is gone."""
        process, threads = self.mount.process, []
        if self.mount.expected_status is None:
            return self.ended
        self.mount.expected_status = None
        for task in sorted(glob.glob(f"/proc/{process.pid}/task/*")):
            with contextlib.suppress(OSError):
                threads.append(open(f"{task}/comm").read().strip() + ":" + open(f"{task}/wchan").read())
        status = process.poll()
        process.kill()
        process.wait()
        subprocess.run(["umount", "-l", self.mount.directory], check=False, stderr=subprocess.DEVNULL)
        return status, {t: threads.count(t) for t in threads}, self.mount.stderr()[-500:]


def recorded(sandbox, path):
    """The contents of the versions of a file."""
    log = sandbox.shfs("log", "--reverse", "--json", "--", path, cwd="/", check=False)
    found = json.loads(log.stdout)["versions"] if log.stdout else []
    kept = [v for v in found if v["object"]]
    specs = [f"{path}@{v['n']}" for v in kept]
    all = sandbox.shfs("cat", "--", *specs, cwd="/").stdout_bytes if specs else b""
    contents = []
    for version in kept:
        contents.append(all[: version["size"]])
        all = all[version["size"] :]
    return contents


def is_part(got, expected):
    """Some of them, in their order; a call that was made again may have left something between."""
    rest = iter(expected)
    return all(content in rest for content in got if content in expected) and \
        all(content in expected or any(e.startswith(content) for e in expected) for content in got)


BATCH = int(os.environ.get("SHFS_TEST_BATCH", "40"))  # trials on one mount


def run_trials(sandbox, sites, trial):
    """trial(trials, site) for each of them; all that was wrong."""
    problems, reached, sites = [], 0, list(sites)
    while sites:
        number = len(os.listdir(sandbox.home))
        sandbox.project = sandbox.mkdir(f"{sandbox.home}/{number}")
        trials = Trials(sandbox, [f"t{number}-{n}" for n in range(BATCH)])
        for site in (batch := sites[:BATCH]):
            sites.remove(site)
            try:
                trial(trials, site)
            except (Exception, pytest.fail.Exception) as problem:
                problems.append((site, f"{problem!r:.300}", trials.end()))
                break
        else:
            trials.check()
        reached += trials.reached
        problems += trials.problems
        print(f"{len(sites)} left of {len(batch)}, {len(problems)} problems", flush=True)
        print(*trials.problems, sep="\n", flush=True)
    assert not problems, "\n".join(map(str, problems))
    return reached


@pytest.mark.timeout(7200 if LONG else 120)
@pytest.mark.users(*USERS)
@TRANSPORTS
def test_of_a_mount(sandbox, transport):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    sandbox.allow_log("")
    sandbox.project = sandbox.mkdir(f"{sandbox.home}/first")
    first = Trials(sandbox, ["t0"])
    found = first.count()
    first.check()
    assert not first.problems
    reached = run_trials(sandbox, sample(found, 2, transport), Trials.one)
    print(f"{sandbox.user.name} {transport}: {len(found)} sites, {reached} reached")


# --- ingest, and the queries that write ---

VIEWS = ["session", "command", "process", "loose_process", "path", "file", "version", "access", "producer", "gap",
         "stats", "left_out"]
SECRET = "hunter2-correct-horse"


@pytest.fixture
def journal(sandbox, shell):
    """A store after some work, without an index."""
    mount, bash = sandbox.mount(), shell()
    for line in ("echo one > a; cat a > b", "seq 5000 > long", f"echo {SECRET} > key", "mv b c; echo two > a",
                 "ln -s a s; (seq 5000; echo end) > long", "echo three > a"):
        bash.run(line)
    bash.run("cd /")
    mount.unmount()
    for path in os.listdir(sandbox.store):
        if path.startswith("index"):
            os.unlink(f"{sandbox.store}/{path}")
    sandbox.whole = f"{sandbox.path}/whole"
    sandbox.run("cp", "-a", sandbox.store, sandbox.whole)


def rows_of(sandbox):
    """All that the index says."""
    def select(sql):
        return json.loads(sandbox.shfs("select", sql, cwd="/").stdout)["rows"]

    if not hasattr(sandbox, "columns"):  # of those that may be empty it is known
        sandbox.columns = {"gap": 5, "left_out": 2, "loose_process": 16}
        for view in VIEWS:
            row = select(f"SELECT * FROM v_{view} LIMIT 1")
            sandbox.columns[view] = len(row[0]) if row else sandbox.columns[view]
    widest = max(sandbox.columns.values())
    return select(" UNION ALL ".join(f"SELECT '{view}', v_{view}.* {', NULL' * (widest - n)} FROM v_{view}"
                                     for view, n in sandbox.columns.items()))


def shfs_traced(sandbox, options, *args):
    """It; and its system calls from the store on."""
    shfs, trace = os.path.join(harness.PREFIX, "bin/shfs"), f"{sandbox.path}/tmp/trace"
    result = sandbox.run("strace", "-f", "-qq", "-y", "-o", trace, *options, shfs, *args, cwd="/",
                         env={"ASAN_OPTIONS": sandbox.env["ASAN_OPTIONS"] + ":detect_leaks=0"}, check=False)
    return result, trace


def sites_from_the_store_on(sandbox, *args):
    """As sites_of, in a program that was loaded."""
    result, trace = shfs_traced(sandbox, [], *args)
    assert result.status == 0, result
    counts, found, begun = {}, [], False
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            begun = begun or sandbox.store in line
            match = re.match(r"\d+ +(\w+)\(", line)
            if match:
                call = match[1]
                counts[call] = counts.get(call, 0) + 1
                if begun and call not in NEVER and "execve" not in line:
                    found.append((call, counts[call]))
    return found


WRITERS = {
    "ingest": ["ingest"],
    "reindex": ["reindex"],
    "restore": ["restore", "a@1"],
    "forget": ["forget", "--yes", "--grep", SECRET],
    "prune": ["prune", "--keep-last", "1"],
    "repair": ["repair"],
}


def flip(path):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[len(data) * 2 // 3] ^= 1
        file.seek(0)
        file.write(data)


def damage(sandbox):
    """A bit of each segment and pack that is kept. What the former held then."""
    held = []
    for path in glob.glob(f"{sandbox.whole}/journal/*/*.seg.zst"):
        sandbox.run("zstd", "-dq", "--rm", path, cwd="/")
        flip(path.removesuffix(".zst"))
        held.append(open(path.removesuffix(".zst"), "rb").read())
    for path in glob.glob(f"{sandbox.whole}/objects/packs/*.pack"):
        flip(path)
    assert held
    return held


def prepare(sandbox, name):
    """The arguments; the store that is kept has an index, but for ingest."""
    if name != "ingest":
        sandbox.shfs("ingest", cwd="/")
        sandbox.run("rm", "-rf", sandbox.whole)
        sandbox.run("cp", "-a", sandbox.store, sandbox.whole)
    if name == "repair":
        rows_of(sandbox)
        sandbox.damaged = damage(sandbox)
    return of_project(sandbox, WRITERS[name])


def of_project(sandbox, args):
    return [arg.replace("a@1", f"{sandbox.project}/a@1") for arg in args]


def begin_anew(sandbox):
    """The store and a file, as they were before the query."""
    sandbox.run("rm", "-rf", sandbox.store, cwd="/")
    sandbox.run("cp", "-a", sandbox.whole, sandbox.store, cwd="/")
    for file in os.listdir(sandbox.project):
        if "shfs-restore" in file:
            os.unlink(f"{sandbox.project}/{file}")
    sandbox.write_outside(f"{sandbox.project}/a", b"three\n")


def wrong_with(sandbox, name, how, result):
    """What the query that failed left behind, if it is wrong; then it is asked again."""
    target = f"{sandbox.project}/a"
    if how == "error" and result.status not in range(7):
        return "died"
    if how == "error" and result.status and not result.stderr.strip():
        return "says nothing"
    if open(target, "rb").read() not in (b"three\n", b"one\n"):
        return "neither old nor new"
    if how == "error" and any("shfs-restore" in file for file in os.listdir(sandbox.project)):
        return "left a file"
    again = sandbox.shfs(*of_project(sandbox, WRITERS[name]), cwd="/", check=False)
    if again.status not in ((0, 3) if name == "forget" else (0,)):
        return f"the second time {again!r}"
    if name == "restore":
        return open(target, "rb").read() != b"one\n" and "not restored"
    if name == "repair":
        aside = [open(path, "rb").read() for path in glob.glob(f"{sandbox.store}/quarantine/*/journal/*/*.seg")]
        if not set(sandbox.damaged) <= set(aside):
            return "what was damaged is not kept"
    if name in ("prune", "repair") and (found := sandbox.shfs("check", "--read-data", cwd="/", check=False)).status:
        return repr(found)
    return rows_of(sandbox) != sandbox.expected and "another index"


@pytest.mark.timeout(7200 if LONG else 120)
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name", WRITERS if LONG else ["ingest", "restore", "repair"])
def test_of_a_query(journal, sandbox, name):
    """It ends, says why, and done again gives what it would have given; as if it is killed."""
    args, problems = prepare(sandbox, name), []
    begin_anew(sandbox)
    found = sites_from_the_store_on(sandbox, *args)
    sandbox.expected = rows_of(sandbox)
    for how in "error", "kill":
        reached = 0
        for call, nth in sample(found, 3, name + how):
            begin_anew(sandbox)
            errors = ERRORS.get(call, LACK)
            site = call, nth, f"error={errors[nth % len(errors)]}" if how == "error" else "signal=KILL"
            result, trace = shfs_traced(sandbox, inject(site), *args)
            failed = injected(trace)
            reached += bool(failed) or result.status in (-9, 137)
            problem = wrong_with(sandbox, name, how, result)
            if problem:
                problems.append((site, failed, problem, repr(result)))
        print(f"{name} {how}: {len(found)} sites, {reached} reached", flush=True)
    assert not problems, "\n".join(map(str, problems))


# --- no memory ---

# The one that `left` counts down to fails. It is in a file that the test maps, too.
NO_MEMORY = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static _Atomic long *left;
__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("NO_MEMORY"), O_RDWR | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		left = p;
}
static int fails(void)
{
	if (!left || atomic_fetch_sub(left, 1) != 1)
		return 0;
	errno = ENOMEM;
	return 1;
}
void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
"""


class NoMemory:
    """Environment of a program whose nth allocation fails."""

    def __init__(self, sandbox):
        if SANITIZED:
            pytest.skip("needs a build without sanitizers")
        path = f"{sandbox.path}/left"
        sandbox.write_outside(path, bytes(4096), 0o666)
        shim = sandbox.compile("nomem.so", NO_MEMORY, "-shared", "-fPIC")
        self.env = {"LD_PRELOAD": shim, "NO_MEMORY": path}
        with open(path, "r+b") as file:
            self.left = memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")

    @contextlib.contextmanager
    def at(self, nth):
        self.left[0] = nth
        yield
        self.left[0], self.failed = 0, self.left[0] <= 0

    def count(self, run):
        """How many allocations there are."""
        self.left[0] = 1 << 40
        run()
        return (1 << 40) - self.left[0]


@pytest.mark.timeout(7200 if LONG else 120)
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name", WRITERS)
def test_no_memory_for_a_query(journal, sandbox, shfs, name):
    memory, args, problems = NoMemory(sandbox), prepare(sandbox, name), []
    begin_anew(sandbox)
    n = memory.count(lambda: shfs(*args, cwd="/", env=memory.env))
    sandbox.expected = rows_of(sandbox)
    chosen = random.Random(name).sample(range(1, n + 1), 300 if LONG else 20)
    for nth in chosen:
        begin_anew(sandbox)
        with memory.at(nth):
            result = shfs(*args, cwd="/", env=memory.env, check=False)
        problem = wrong_with(sandbox, name, "error", result)
        if problem:
            problems.append((nth, problem, result))
    print(f"{name}: {len(chosen)} of {n} allocations", flush=True)
    assert not problems, "\n".join(map(str, problems))


@pytest.mark.timeout(7200 if LONG else 120)
@pytest.mark.users(*USERS)
@TRANSPORTS
def test_no_memory_for_a_mount(sandbox, transport):
    memory = NoMemory(sandbox)
    sandbox.allow_log("")
    sandbox.daemon_env = memory.env
    trials = Trials(sandbox, ["t0"])
    n = memory.count(lambda: trials.work("t0") == ["done"] and trials.sync())
    trials.mount.unmount()

    def one(trials, nth):
        trials.trial(nth, memory.at(nth), lambda: memory.failed)

    chosen = [i if i % 2 else random.Random(i).randrange(1, n) for i in range(1, 301 if LONG else 11)]
    reached = run_trials(sandbox, chosen, one)
    print(f"{sandbox.user.name} {transport}: {reached} of {n} allocations")
