# SPDX-License-Identifier: MIT
"""Who sends a request: found out without waiting for the caller, and each program it executes."""

import json
import os
import time

import pytest

from harness import PATIENCE
from twins import python

pytestmark = pytest.mark.either

# Threads of one process fault in a mapped file, map and unmap memory, and come and go with a first
# access each: whoever waits for the memory map of this process while they wait for an answer never
# gets it.
BUSY_MAP = r"""
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <time.h>
    #include <unistd.h>

    #define SIZE (4 << 20)

    static double end;

    static double now(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + t.tv_nsec / 1e9;
    }

    static void *fault(void *arg)
    {
        int fd = open("mapped", O_RDWR);
        char *m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        unsigned seed = (unsigned)(long)arg;

        if (m == MAP_FAILED)
            exit(2);
        while (now() < end) {
            for (int i = 0; i < 64; i++)
                (void)*(volatile char *)&m[rand_r(&seed) % (SIZE / 4096) * 4096];
            madvise(m, SIZE, MADV_DONTNEED);
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        }
        return NULL;
    }

    static void *map(void *arg)
    {
        while (now() < end) {
            char *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            *m = 1;
            munmap(m, 1 << 20);
        }
        return NULL;
    }

    static void *open_once(void *arg)
    {
        char name[64];
        int fd;

        snprintf(name, sizeof(name), "by-thread-%ld", (long)arg);
        fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0 || write(fd, "x", 1) != 1 || close(fd))
            exit(3);
        return NULL;
    }

    static void *open_often(void *arg)
    {
        while (now() < end) {
            pthread_t thread;
            pthread_create(&thread, NULL, open_once, arg);
            pthread_join(thread, NULL);
        }
        return NULL;
    }

    int main(int argc, char **argv)
    {
        void *(*const work[])(void *) = { fault, map, open_often };
        pthread_t threads[15];

        if (chdir(argv[1]))
            return 4;
        end = now() + 1;
        for (long i = 0; i < 15; i++)
            pthread_create(&threads[i], NULL, work[i % 3], (void *)i);
        for (int i = 0; i < 15; i++)
            pthread_join(threads[i], NULL);
        return 0;
    }
"""


def run_all(processes, mounted=None):
    """Waits for processes that may wait for the mount where no signal reaches them."""
    end = time.monotonic() + 10 * PATIENCE
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        time.sleep(0.01)
    if any(process.poll() is None for process in processes):
        if mounted:
            mounted.expected_status = None
            mounted.process.kill()
        for process in processes:
            process.kill()
            process.wait()
        pytest.fail("the mount stands still")
    assert [process.returncode for process in processes] == [0] * len(processes)


@pytest.mark.both
def test_caller_whose_threads_wait_for_us(sandbox, mounted):
    program = sandbox.compile("busy-map", BUSY_MAP)
    sandbox.sh("head -c 4194304 /dev/zero > mapped")
    for _ in range(4):
        # who is started in the mount could not even be started
        processes = [sandbox.popen([program, mounted.directory], cwd="/") for _ in range(2)]
        # nobody else is held up either
        script = 'cd "$0" && for i in 1 2 3 4 5; do echo $i > other; done'
        processes += [sandbox.popen(["sh", "-c", script, mounted.directory], cwd="/")]
        run_all(processes, mounted)


# It executes itself again and again, with files of a directory that the exec closes, while children
# write to them that were forked a moment before: argv: the directory; how often; files; children.
EXECS = r"""
    #include <fcntl.h>
    #include <limits.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>

    int main(int argc, char **argv)
    {
        int n = atoi(argv[2]), n_files = atoi(argv[3]), n_children = atoi(argv[4]), fds[64];
        char path[PATH_MAX], left[16];

        while (waitpid(-1, NULL, n ? WNOHANG : 0) > 0)
            ;
        if (!n)
            return 0;
        for (int i = 0; i < n_files; i++) {
            snprintf(path, sizeof(path), "%s/file-%d", argv[1], i);
            fds[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
            if (fds[i] < 0 || write(fds[i], "x", 1) != 1)
                return 1;
        }
        for (int i = 0; i < n_children; i++) {
            pid_t child = i % 2 ? vfork() : fork();

            if (child < 0)
                return 1;
            if (!child && i % 2) {
                execl("/bin/true", "true", NULL);
                _exit(1);
            }
            if (child)
                continue;
            for (int k = 0; k < n_files; k++)
                if (write(fds[(i + k) % n_files], "y", 1) != 1)
                    _exit(1);
            _exit(0);
        }
        snprintf(left, sizeof(left), "%d", n - 1);
        execl("/proc/self/exe", argv[0], argv[1], left, argv[3], argv[4], NULL);
        return 1;
    }
"""
# how often, files, children: the caller alone; children at one file; more children than threads serve
EXECUTED = [(200, 3, 0), (200, 1, 4), (30, 4, 60)]


@pytest.mark.transports
@pytest.mark.parametrize("times, files, children", EXECUTED)
def test_files_that_an_exec_closes(sandbox, mounted, times, files, children):
    """To read what /proc tells of a process in an exec waits for the exec, which waits for the FLUSH
    of each file that it closes."""
    arguments = [mounted.directory, str(times), str(files), str(children)]
    run_all([sandbox.popen([sandbox.compile("execs", EXECS), *arguments], cwd="/")], mounted)


def test_files_that_an_exec_closes_in_a_record(sandbox):
    program = sandbox.compile("execs", EXECS)
    run_all([sandbox.popen(["shfs", "record", "--", program, sandbox.project, "50", "2", "8"])])


def programs(shfs):
    """{file name: arguments of the process that wrote it}; none is in a registered shell."""
    found = json.loads(shfs("history", "--all", "--limit", "1000", "--json").stdout)["commands"]
    return {
        file["path"].rsplit("/", 1)[1]: process["argv"]
        for process in found
        for file in process["files"]
        if file["use"] in ("wrote", "changed")
    }


def test_same_program_executed_again(sandbox, shfs, mounted):
    scripts = ["first.py", "the-second.py", "last-of-them.py"]
    for script, following in zip(scripts, scripts[1:] + [None]):
        lines = ["import os, sys", f"open('by-{script}', 'w').write('x')"]
        if following:
            lines.append(f"os.execv(sys.executable, [sys.executable, '{following}'])")
        sandbox.write(script, "\n".join(lines))
    sandbox.run("python3", scripts[0])
    found = programs(shfs)
    assert [found[f"by-{script}"][-1] for script in scripts] == scripts


def test_executed_by_a_thread(sandbox, shfs, mounted):
    source = r"""
        #include <fcntl.h>
        #include <pthread.h>
        #include <unistd.h>
        static void *work(void *arg)
        {
            close(open("by-thread", O_CREAT | O_WRONLY, 0600));
            execl("/bin/touch", "touch", "by-touch", (char *)NULL);
            return NULL;
        }
        int main(void)
        {
            pthread_t thread;
            close(open("by-main", O_CREAT | O_WRONLY, 0600));
            pthread_create(&thread, NULL, work, NULL);
            pthread_join(thread, NULL);
            return 1;
        }
    """
    program = sandbox.compile("threads", source)
    sandbox.run(program, "some", "words")
    found = programs(shfs)
    assert found["by-main"] == found["by-thread"] == [program, "some", "words"]
    assert found["by-touch"] == ["touch", "by-touch"]


def test_redirection_before_the_program(sandbox, shfs, mounted):
    """The child of the shell opens the file, and only then executes cat, which opens another."""
    sandbox.sh("echo x > source; cp source copy > redirected; true")
    found = programs(shfs)
    assert found["redirected"][0] == "/bin/sh"
    assert found["copy"] == ["cp", "source", "copy"]


def test_arguments_of_processes_that_end_at_once(sandbox, shfs, mounted):
    sandbox.sh("echo x > source; for i in $(seq 150); do cp source copy$i & done; wait")
    found = programs(shfs)
    for n in range(1, 151):
        assert found[f"copy{n}"] == ["cp", "source", f"copy{n}"]


def test_closed_by_executing(sandbox, mounted):
    """What is closed as another program is executed: /proc tells nothing of a process until that is done,
    and that waits for the close."""
    python(sandbox, """
log = open("log", "w")
for n in range(20):
    print(n, file=log, flush=True)
    assert subprocess.run(["/bin/true"], close_fds=False).returncode == 0
    child = os.fork()
    if not child:
        os.write(log.fileno(), b"child\\n")
        os.execv("/bin/true", ["true"])
    assert os.waitpid(child, 0)[1] == 0
""")
    assert sandbox.read("log").count(b"child\n") == 20


@pytest.mark.users("root")  # who may read what the mount has open
def test_of_processes_that_have_ended_nothing_is_kept_open(sandbox, mounted):
    sandbox.sh("for n in $(seq 200); do sh -c 'echo x > f'; done")
    held = f"/proc/{mounted.process.pid}/fd"
    links = [os.readlink(f"{held}/{fd}") for fd in os.listdir(held)]
    assert sum(link.endswith("/pagemap") or "pidfd" in link for link in links) < 20, links
