# SPDX-License-Identifier: MIT
"""shfs export bundle: the commands behind a file, with all that they need, run where nothing else is."""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import ALL

pytestmark = [pytest.mark.users("ordinary"), pytest.mark.timeout(900 if ALL else 240)]

GCC = {"a.c": '#include <stdio.h>\n#include "a.h"\nint main(void) { puts(A); return 0; }\n', "a.h": '#define A "a"\n'}
MAKE = {
    "Makefile": "all: out\nout: a\n\t./a > out\na: a.o b.o\n\tcc -o a a.o b.o\n%.o: %.c\n\tcc -O1 -c $<\n",
    "a.c": "#include <stdio.h>\nextern const char *b;\nint main(void) { puts(b); return 0; }\n",
    "b.c": 'const char *b = "b";\n',
}
DATES = "export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z; "
GIT = "git -c user.name=a -c user.email=b -c init.defaultBranch=m "

# name: (what it takes, files, line, results); the first ones always, the others with ./dev test --all
PROGRAMS = {
    "gcc": ("gcc", GCC, "gcc -c a.c && gcc -o a a.o && ./a > out", ["a.o", "a", "out"]),
    "make": ("make gcc", MAKE, "make -j3 > /dev/null", ["a", "out"]),
    "pipeline": ("bash awk", {"in": "b 2\na 1\nc 3\n"}, "bash -c 'set -o pipefail; sort in | awk \"{ n += \\$2; print \\$1, n }\" | tee all | tail -n 1 > out'", ["all", "out"]),
    "sqlite3": ("sqlite3", {}, "sqlite3 db 'create table t(a); insert into t values (1), (2)' && sqlite3 db 'select sum(a) from t' > out", ["db", "out"]),
    "perl": ("perl", {"in": "1.5\n2.2\n"}, "perl -MPOSIX -MList::Util=sum -e 'print floor(sum(<>)), \"\\n\"' in > out", ["out"]),
    "busybox": ("busybox", {}, "busybox sh -c 'busybox seq 5 | busybox tac > out'", ["out"]),
    "git": ("git", {"f": "x\n"}, DATES + GIT + "init -q r && cp f r && cd r && git add f && " + GIT + "commit -qm m && git log --format=%H%n%s > ../out", ["out", "r/f"]),
    "python": ("python3", {"in": "b\na\n", "own.py": "def key(line):\n    return line\n"}, "/usr/bin/python3 -c 'import csv, json, own; json.dump(sorted(csv.reader(open(\"in\"))), open(\"out\", \"w\"))'", ["out"]),
    "numpy": ("python3 /usr/lib/python3/dist-packages/numpy", {"in": "2 1\n1 3\n"}, "/usr/bin/python3 -c 'import numpy as np; np.save(\"out\", np.linalg.inv(np.loadtxt(\"in\")))'", ["out.npy"]),
    "matplotlib": ("python3 /usr/lib/python3/dist-packages/matplotlib", {}, "SOURCE_DATE_EPOCH=0 /usr/bin/python3 -c 'import matplotlib; matplotlib.use(\"Agg\"); import matplotlib.pyplot as p; p.plot([1, 2]); p.savefig(\"out.png\")'", ["out.png"]),
    "R": ("Rscript", {"in": "1\n2\n"}, "Rscript --vanilla -e 'write.csv(summary(read.table(\"in\")), \"out\")'", ["out"]),
    "gnuplot": ("gnuplot", {"in": "1 2\n2 3\n"}, "gnuplot -e 'set terminal dumb; set output \"out\"; plot \"in\"'", ["out"]),
    "java": ("java javac", {"A.java": "public class A { public static void main(String[] a) throws Exception { java.nio.file.Files.writeString(java.nio.file.Path.of(\"out\"), \"x\" + a.length); } }\n"}, "javac A.java && java A 1 2", ["A.class", "out"]),
    "imagemagick": ("convert", {}, "convert -size 8x8 gradient:red-blue -resize 4x4 out.ppm", ["out.ppm"]),
    "node": ("node", {"in": "[2, 1]"}, "node -e 'const fs = require(\"fs\"); fs.writeFileSync(\"out\", JSON.stringify(JSON.parse(fs.readFileSync(\"in\")).sort()))'", ["out"]),
}
ALWAYS = ["gcc", "make", "pipeline", "sqlite3", "perl", "busybox", "git", "python", "numpy"]


@functools.cache
def can_be_bare():
    """May anybody make namespaces with a root of their own here?"""
    return not subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], check=False).returncode


def command_of(sandbox):
    """The id of the last command."""
    return json.loads(sandbox.shfs("history", "--all", "--json", "-n1", cwd="/").stdout)["commands"][0]["id"]


def record(sandbox, *argv, **options):
    """Records the command; its id."""
    options.setdefault("timeout", 90)
    sandbox.shfs("record", "--", *argv, **options)
    return command_of(sandbox)


def bundle(sandbox, *operands, to="../b", **options):
    sandbox.sh('chmod -R u+w "$1" "$1".run 2>/dev/null; rm -rf "$1" "$1".run', to)
    options.setdefault("timeout", 90)
    return sandbox.shfs("export", "bundle", *operands, "-o", to, **options)


def run_bundle(sandbox, to="../b", by="bwrap", check=True):
    """In an empty root, without anything of the environment."""
    if not can_be_bare():
        pytest.skip("no namespaces here")
    line = 'rm -rf "$1".run; exec env -i PATH=/usr/bin:/bin BUNDLE_BY="$2" "$1"/run.sh "$1".run'
    return sandbox.sh(line, to, by, check=check, timeout=90)


def prepare(sandbox, name):
    """The files of a program; skips where it is not installed."""
    needs, files, line, results = PROGRAMS[name]
    for need in needs.split():
        if not (os.path.exists(need) if need.startswith("/") else shutil.which(need, path=sandbox.env["PATH"])):
            pytest.skip(f"no {need} here")
    for path, text in files.items():
        sandbox.write(path, text)
    return line, results


def lose(sandbox, pattern, to="../b"):
    """Takes one file out of a bundle by hand."""
    found = sandbox.sh(f'find "$1"/root -path "{pattern}" ! -type d', to).stdout.split()
    assert found, pattern
    sandbox.sh('rm -- "$1"', found[0])


@pytest.mark.parametrize("name", [name for name in PROGRAMS if ALL or name in ALWAYS])
def test_programs(sandbox, name):
    """Recorded, bundled, run in an empty root: the same bytes come out."""
    line, results = prepare(sandbox, name)
    command = record(sandbox, "sh", "-c", line)
    wanted = {result: hashlib.sha256(sandbox.read(result)).hexdigest() for result in results}
    made = bundle(sandbox, command)
    assert not made.stderr, made
    sums = sandbox.read("../b/SHA256SUMS").decode()
    for result, sha256 in wanted.items():
        assert f"{sha256}  {sandbox.project[1:]}/{result}\n" in sums
        assert not os.path.lexists(f"{sandbox.path}/home/b/root{sandbox.project}/{result}"), "a result is no input"
    ran = run_bundle(sandbox)
    for result in results:
        assert f"{result}: OK" in ran.stdout
        assert hashlib.sha256(sandbox.read(f"../b.run{sandbox.project}/{result}")).hexdigest() == wanted[result]
    assert not ran.stderr


def test_a_lost_file(sandbox):
    """Any file that is needed and taken out is noticed."""
    line, _ = prepare(sandbox, "gcc")
    command = record(sandbox, "sh", "-c", line)
    for pattern in "*/libc.so.6", "*/cc1", "*/stdio.h", "*/a.h", "*/Scrt1.o", "*/root/bin", "*/ld-linux-*":
        bundle(sandbox, command)
        lose(sandbox, pattern)
        assert run_bundle(sandbox, check=False).status, pattern
    bundle(sandbox, command)
    run_bundle(sandbox)


def test_of_a_file(sandbox):
    """All commands behind it, in order, with a source that was changed by hand between them; by unshare, too."""
    sandbox.write("in", "b\na\n")
    record(sandbox, "sort", "in", "-o", "sorted")
    sandbox.sh("sleep 0.01; echo one > in")
    line = "cat sorted in > both; rm sorted"
    record(sandbox, "sh", "-c", line)
    record(sandbox, "wc", "-c", "both", check=False)
    record(sandbox, "sh", "-c", "wc -c < both > out")
    made = bundle(sandbox, "out", check=False)
    # the first content of "in" was not archived, and is gone
    assert made.status == 3 and re.search(r"in is not archived, and was changed since", made.stderr), made
    sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", f"{sandbox.home}/known")
    sandbox.shfs("umount", f"{sandbox.home}/known", cwd="/")
    known = f"{sandbox.home}/known"
    sandbox.sh("printf 'b\\na\\n' > in.sh", cwd=known)
    record(sandbox, "sort", "in.sh", "-o", "sorted", cwd=known)
    sandbox.sh("sleep 0.01; echo one > in.sh", cwd=known)
    record(sandbox, "sh", "-c", "cat sorted in.sh > both; rm sorted", cwd=known)
    record(sandbox, "sh", "-c", "wc -c < both > out; echo $LC_ALL >> out", cwd=known)
    sandbox.sh('rm -rf ../b; exec shfs export bundle out -o ../b', cwd=known)
    assert sandbox.sh("grep -c '^cp' ../b/root/.bundle/steps.sh").stdout == "1\n"
    for by in "bwrap", "unshare":
        ran = run_bundle(sandbox, by=by)
        assert ran.stdout.endswith("known/out: OK\n") and sandbox.read(f"../b.run{known}/out") == b"8\nC.UTF-8\n", ran
    readme = sandbox.read("../b/README.md").decode()
    assert "sort in.sh -o sorted" in readme and "* coreutils=" in readme and "* libc6=" in readme and "LC_ALL=C.UTF-8" in readme, readme
    assert readme.index("sort in.sh") < readme.index("wc -c")


@pytest.mark.users("ordinary", "root")
def test_as_it_was_executed(sandbox):
    """Arguments, streams, directory, status and environment are those of then."""
    data = sandbox.write_outside(f"{sandbox.home}/data/in", "b\na\n")
    show = sandbox.write_outside(f"{sandbox.home}/show", "#!/bin/sh\nprintf '<%s>' \"$@\"; pwd; cat; echo \"$TZ\"; echo said >&2; exit 7\n", 0o755)
    sandbox.sh(f"cd ../data; TZ=Asia/Tokyo shfs record ../show 'a b' \"it's\" '$x' '' \"$(printf 'n\\nl\\377')\" < in > ../out 2>&1", check=7)
    made = bundle(sandbox, command_of(sandbox))
    ran = run_bundle(sandbox)
    assert "home/out: OK" in ran.stdout and not made.stderr, (made, ran)
    assert sandbox.read(f"../b.run{sandbox.home}/out") == sandbox.read("../out")
    assert b"<a b><it's><$x><><n\nl\xff>" in sandbox.read("../out") and show and data


def test_what_was_only_looked_at(sandbox):
    """Files that were not opened, directories, and links as they were then; what was not there stays away."""
    sandbox.sh("touch -d 2001-02-03 marker; mkdir -p dir/empty one two; echo 1 > one/f; echo 2 > two/f; ln -s one link; ln -s nowhere dangling; printf 'out: in\\n\\tfalse\\n' > Makefile;"
               "touch -d 2001-01-01 in; echo kept > out")
    line = ("{ test -e marker && stat -c %Y,%s marker; test -d dir/empty && echo dir; readlink dangling; cat link/f; test -e away || echo away; make -s out && echo made; } > result")
    command = record(sandbox, "sh", "-c", line)
    wanted = sandbox.read("result")
    assert wanted.split()[1:] == [b"dir", b"nowhere", b"1", b"away", b"made"]
    sandbox.sh("ln -sfn two link; touch away; ln -s in other")
    made = bundle(sandbox, command)
    ran = run_bundle(sandbox)
    assert "result: OK" in ran.stdout and not made.stderr, (made, ran)
    assert not os.path.lexists(f"{sandbox.home}/b/root{sandbox.project}/away") and not os.path.lexists(f"{sandbox.home}/b/root{sandbox.project}/other")
    lose(sandbox, "*/marker")
    assert run_bundle(sandbox, check=False).status
    sandbox.sh("rm marker; truncate -s 20M in")
    made = bundle(sandbox, command, check=3)
    assert "marker is not there any more" in made.stderr and "in was only looked at, is large" in made.stderr, made


def test_recorded_to_be_bundled(sandbox):
    """With record --bundle all contents are archived: what was changed or removed since is there."""
    sandbox.sh("echo data > data; printf '#!/bin/sh\\ncat data data > out\\n' > run; chmod +x run")
    sandbox.shfs("record", "--bundle", "--", "./run", timeout=90)
    sandbox.sh("rm data run; echo other > out")
    made = bundle(sandbox, command_of(sandbox))
    assert not made.stderr
    run_bundle(sandbox)
    assert sandbox.read(f"../b.run{sandbox.project}/out") == b"data\ndata\n"


def test_streams_that_are_appended_to(sandbox):
    sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", f"{sandbox.home}/known")
    sandbox.shfs("umount", f"{sandbox.home}/known", cwd="/")
    sandbox.sh("cd ../known; echo first > log; shfs record cat log > copy; shfs record echo second >> log; shfs record echo third > log.new")
    for name, wanted in ("log", b"first\nsecond\n"), ("log.new", b"third\n"):
        bundle(sandbox, f"../known/{name}")
        run_bundle(sandbox)
        assert sandbox.read(f"../b.run{sandbox.home}/known/{name}") == wanted


def test_the_same_twice(sandbox):
    """Two exports of one record are the same to the byte: directories, tars, names and times."""
    line, _ = prepare(sandbox, "pipeline")
    command = record(sandbox, "sh", "-c", line)
    for name in "1", "2":
        sandbox.shfs("export", "bundle", command, "-o", f"../{name}.tar.zst")
        sandbox.shfs("export", "bundle", command, "-o", f"../{name}.tar")
        bundle(sandbox, command, to=f"../{name}.d")
        sandbox.sh(f"tar c --sort=name --mtime=@0 -f ../{name}.d.tar -C ../{name}.d .")
        sandbox.sh(f"cd ../{name}.d; find . -printf '%p %m %T@ %l\\n' | sort > ../{name}.list")
    for ending in "tar.zst", "tar", "d.tar", "list":
        sandbox.sh(f"cmp ../1.{ending} ../2.{ending}")
    assert sandbox.shfs("export", "bundle", command, "-o", "../1.tar", check=False).status
    sandbox.shfs("export", "bundle", command, "-f", "-o", "../1.tar")
    sandbox.sh("mkdir ../x; tar xf ../1.tar.zst -C ../x && mv ../x/bundle ../b")
    run_bundle(sandbox)
    sandbox.sh("diff -r --no-dereference ../b ../1.d")


def test_what_is_of_the_kernel(sandbox):
    """Links may lead to /proc: that of the process which made the bundle is not in it."""
    sandbox.sh("ln -s /proc/self/status status; ln -s /dev/stdin in; ln -s /dev dev")
    command = record(sandbox, "sh", "-c", "wc -l < /etc/mtab > /dev/null; grep -c Name status > out; cat dev/null in >> out; test -e dev/zero && echo zero >> out", env={"HOME": "/proc/self/cwd"})
    made = bundle(sandbox, command, check=False)
    assert not any(os.path.lexists(f"{sandbox.home}/b/root/{name}") for name in ("proc", "dev", "sys", "run")), made
    for name in "1", "2":
        sandbox.shfs("export", "bundle", command, "-o", f"../{name}.tar", check=made.status)
    sandbox.sh("cmp ../1.tar ../2.tar")
    assert "project/out: OK" in run_bundle(sandbox).stdout


def test_secrets_are_left_out(sandbox):
    """They are named, and in none of the forms; nor is what lies in dot-directories of the home."""
    token = "geheim-4711"
    home = sandbox.home
    secrets = {f"{home}/.ssh/id_ed25519": token, f"{sandbox.project}/.env": token, f"{home}/.config/tool/token": token,
               f"{home}/key.txt": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{token}\n", f"{home}/.netrc": token}
    for path, text in secrets.items():
        sandbox.write_outside(path, text + "\n")
    sandbox.write("in", "in\n")
    command = record(sandbox, "sh", "-c", f"cat in {' '.join(secrets)} | wc -l > out")
    made = bundle(sandbox, command, check=3)
    sandbox.shfs("export", "bundle", command, "-o", "../b.tar", check=3)
    for path in secrets:
        assert re.search(rf"{re.escape(path.replace(sandbox.project + '/', '').replace(home, '~'))} (is secret|lies in a dot-directory)", made.stderr), (path, made)
        assert not os.path.exists(f"{home}/b/root{path}")
        assert path in sandbox.read("../b/README.md").decode()
    assert not sandbox.sh(f"grep -rl {token} ../b ../b.tar", check=False).stdout
    assert os.path.exists(f"{home}/b/root{sandbox.project}/in")


def test_what_is_missing(sandbox):
    """Changed, removed, unreadable, no file: each is named, with the exit status of incomplete exports."""
    sandbox.sh("for i in changed gone closed kept 'touched too'; do echo $i > \"$i\"; done; mkfifo fifo")
    command = record(sandbox, "sh", "-c", "(echo through > fifo &); cat changed gone closed kept 'touched too' fifo > out; cat changed > other")
    sandbox.sh("echo more >> changed; rm gone other; chmod 0 closed; touch -d 2001-01-01 'touched too'; rm kept; mkfifo kept")
    made = bundle(sandbox, command, check=3)
    for text in ("changed is not archived, and was changed since", "gone is not archived, and is not there any more", "closed cannot be read",
                 "touched too is not archived, and was changed since", "kept is no file", "what comes out as other@1 cannot be compared"):
        assert text in made.stderr, (text, made)
    assert "out@1" not in made.stderr
    assert run_bundle(sandbox, check=False).status == 1
    sandbox.sh("rm kept")


def test_names_with_every_byte(sandbox):
    names = [bytes([n]) + b"x" for n in range(1, 256) if n != ord("/")] + [b"-n", b"a b", b"x" * 255, "ä".encode(), b"'\"`$(x)"]
    line = b"mkdir out; for i in *; do [ -d \"$i\" ] || cat -- \"$i\" > out/\"$i\"; done"
    for start in range(0, len(names), 64):
        some = b"\0".join(names[start:start + 64])
        sandbox.run("python3", "-c", "import sys\nfor n in sys.stdin.buffer.read().split(b'\\0'): open(n, 'wb').write(n)", input=some)
    command = record(sandbox, "sh", "-c", line)
    made = bundle(sandbox, command)
    assert not made.stderr
    for how in "", ".tar":
        if how:
            sandbox.shfs("export", "bundle", command, "-o", "../b.tar")
            sandbox.sh("rm -rf ../b; mkdir ../x; tar xf ../b.tar -C ../x; mv ../x/bundle ../b")
        ran = run_bundle(sandbox)
        assert ran.stdout.count(": OK\n") == len(names) - 1  # "*" leaves .x out
        sandbox.sh(f"diff -r out ../b.run{sandbox.project}/out")


def test_a_lot_of_inputs(sandbox):
    n = 100_000 if ALL else 500
    sandbox.run("python3", "-c", f"import os\nfor i in range({n}):\n    if i % 1000 == 0: os.mkdir('d%d' % (i // 1000))\n    open('d%d/%d' % (i // 1000, i), 'w').write('%d\\n' % i)", timeout=200)
    sandbox.shfs("record", "--", "sh", "-c", "find d* -type f -exec cat {} + | sort -n | sha256sum > out", timeout=300)
    made = bundle(sandbox, "out", timeout=600)
    assert not made.stderr
    assert "out: OK" in run_bundle(sandbox).stdout


def test_damaged_contents(sandbox):
    """Nothing is written of what the store cannot give."""
    known = sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", known)
    sandbox.shfs("umount", known, cwd="/")
    sandbox.sh("printf '%01000d\\n' 1 > in.sh", cwd=known)
    record(sandbox, "sh", "-c", "cat in.sh > out", cwd=known)
    sandbox.sh('for f in $(find "$SHFS_STORE/objects" "$SHFS_STORE/packs" -type f 2>/dev/null); do chmod u+w "$f"; '
               'python3 -c "import sys; p = sys.argv[1]; d = bytearray(open(p, \'rb\').read())\nfor i in range(len(d) // 4, len(d)): d[i] ^= 255\nopen(p, \'wb\').write(d)" "$f"; done')
    for to in "../b", "../b.tar":
        made = sandbox.shfs("export", "bundle", "out", "-o", to, cwd=known, check=1)
        assert "in.sh" in made.stderr and ("damaged" in made.stderr or "not in the store" in made.stderr), made
        assert not os.path.exists(f"{sandbox.home}/{to[3:]}")
    assert not [name for name in os.listdir(sandbox.home) if name.startswith(".shfs-")]


def test_no_room(sandbox):
    """A full disk is said, and leaves nothing."""
    line, _ = prepare(sandbox, "gcc")
    command = record(sandbox, "sh", "-c", line)
    full = 'mount -t tmpfs -o size=1m tmpfs /mnt && shfs export bundle "$0" -o /mnt/"$1"; echo =$?; ls -A /mnt'
    for name in "b", "b.tar", "b.tar.zst":
        made = sandbox.run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", full, command, name, check=False, timeout=60)
        assert made.stdout == "=1\n" and "No space left on device" in made.stderr, made


def test_refused(sandbox):
    sandbox.write("in", "in\n")
    command = record(sandbox, "cp", "in", "out")
    for argv, status, text in (
        ([command], 2, "-o NAME"),
        ([command, "-o", "-"], 2, "-o NAME"),
        ([command, "-o", "../b", "--verify"], 2, "compares the results itself"),
        (["out", "-o", "."], 4, "no empty directory"),
        (["in", "-o", "../b"], 4, "no command that can be run again"),
        (["0123456789abcdef", "-o", "../b"], 3, "never seen"),
        ([command, "out", "-o", "../b"], 3, "never seen"),
        ([command, "-o", "../none/b"], 1, "No such file"),
        ([record(sandbox, "sh", "-c", "echo x > y # --password=hunter2hunter2"), "-o", "../b"], 4, "not kept"),
    ):
        made = sandbox.shfs("export", "bundle", *argv, check=False)
        assert made.status == status and text in made.stderr, (argv, made)
    assert not os.path.exists(f"{sandbox.home}/b")


def test_from_a_mount(sandbox, mounted, shell):
    """Only its project was recorded: programs and their libraries come from the disk, and what else may be missing is said."""
    work = shell()
    work.run("printf 'b\\na\\n' > in; ln -s /proc/self/status status; sort in > out; grep -c Name status >> out")
    made = bundle(sandbox, "out", check=3)
    assert "only the files of its projects were recorded" in made.stderr and "shfs record" in made.stderr, made
    assert not os.path.lexists(f"{sandbox.home}/b/root/proc")
    ran = run_bundle(sandbox)
    assert "project/out: OK" in ran.stdout


@pytest.mark.users("ordinary", "root")
def test_in_a_home_of_another_name(sandbox):
    """Whoever gets the bundle runs it where and as who they are."""
    sandbox.write("in", "in\n")
    command = record(sandbox, "sh", "-c", "cat in ~/project/in > ~/out; id -u >> ~/out")
    bundle(sandbox, command)
    sandbox.sh("mkdir '../some where'; mv ../b '../some where/the bundle'; ln -s 'some where/the bundle' ../b")
    sandbox.sh("mv in in.away")
    assert "home/out: OK" in run_bundle(sandbox).stdout


# --- images ---

CRUN = 'mount -t tmpfs tmpfs /sys/fs/cgroup && exec crun --cgroup-manager=disabled --root "$1" run "$2"'


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"no {program} here")


def export_image(sandbox, *operands, to="../image.tar", **options):
    return sandbox.shfs("export", "oci", *operands, "-f", "-o", to, timeout=90, **options)


def unpack_image(sandbox, image="../image.tar"):
    """By umoci; returns where."""
    line = 'chmod -R u+w ../oci 2>/dev/null; rm -rf ../oci; mkdir -p ../oci/layout ../oci/state; tar xf "$1" -C ../oci/layout; umoci unpack --rootless --image ../oci/layout:latest ../oci/un'
    sandbox.sh(line, image, timeout=90)
    return f"{sandbox.home}/oci/un"


def run_image(sandbox, where, check=True):
    """By crun, without network, with nothing of the host."""
    if not can_be_bare():
        pytest.skip("no namespaces here")
    config = json.loads(sandbox.read(f"{where}/config.json"))
    config["process"].update(terminal=False, rlimits=[])
    config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] in ("/proc", "/dev", "/dev/shm")]
    config["linux"]["namespaces"].append({"type": "network"})
    for ids in "uidMappings", "gidMappings":
        config["linux"][ids] = [{"containerID": 0, "hostID": 0, "size": 1}]
    sandbox.write(f"{where}/config.json", json.dumps(config))
    return sandbox.run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", CRUN, "sh", f"{sandbox.home}/oci/state", f"b{os.getpid()}",
                       cwd=where, check=check, timeout=90)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if ALL or name in ALWAYS and name != "numpy"])
def test_images(sandbox, name):
    """skopeo and umoci take the image; crun runs it, and the same bytes come out."""
    needs("skopeo", "umoci", "crun")
    line, results = prepare(sandbox, name)
    command = record(sandbox, "sh", "-c", line)
    assert not export_image(sandbox, command).stderr
    sandbox.shfs("export", "oci", command, "-o", "../again.tar", timeout=90)
    sandbox.sh("cmp ../image.tar ../again.tar; ! tar tf ../image.tar 2>&1 | grep ^tar:")
    shown = json.loads(sandbox.run("skopeo", "inspect", f"oci-archive:{sandbox.home}/image.tar").stdout)
    assert shown["Os"] == "linux" and len(shown["Layers"]) == 2
    where = unpack_image(sandbox)
    ran = run_image(sandbox, where)
    for result in results:
        assert f"{result}: OK" in ran.stdout
        assert sandbox.read(f"{where}/rootfs{sandbox.project}/{result}") == sandbox.read(result)


def test_layers_of_images(sandbox):
    """What is of the machine is one layer, which stays the same when the inputs change; docker's form is there, too."""
    needs("skopeo")
    sandbox.write("in", "b\na\n")
    layers = []
    for _ in range(2):
        command = record(sandbox, "sort", "in", "-o", "out")
        export_image(sandbox, command)
        for form in "oci-archive", "docker-archive":
            shown = json.loads(sandbox.run("skopeo", "inspect", f"{form}:{sandbox.home}/image.tar").stdout)
            assert len(shown["Layers"]) == 2
        layers.append(json.loads(sandbox.run("skopeo", "inspect", "--raw", f"oci-archive:{sandbox.home}/image.tar").stdout)["layers"])
        sandbox.sh("printf 'd\\nc\\n' > in; rm out")
    names = [[sorted(sandbox.sh('tar xOf ../image.tar "blobs/sha256/$1" | tar t', layer["digest"][7:]).stdout.split()) for layer in layers[1]]]
    assert any(name.endswith("libc.so.6") for name in names[0][0]) and not any("project" in name for name in names[0][0])
    assert f"{sandbox.project[1:]}/in" in names[0][1] and ".bundle/steps.sh" in names[0][1]
    assert layers[0][1]["digest"] != layers[1][1]["digest"]


def test_a_lost_file_of_an_image(sandbox):
    """Needed files are noticed when they are gone; a damaged image is not taken."""
    needs("skopeo", "umoci", "crun")
    line, _ = prepare(sandbox, "pipeline")
    export_image(sandbox, record(sandbox, "sh", "-c", line))
    run_image(sandbox, unpack_image(sandbox))
    for lost in "mawk", "libc.so.6", "/in":
        where = unpack_image(sandbox)
        sandbox.sh('found=$(find "$1/rootfs" -path "*$2" -type f | head -n 1); test -n "$found" && rm "$found"', where, lost)
        assert run_image(sandbox, where, check=False).status, lost
    sandbox.sh("python3 -c \"d = bytearray(open('../image.tar', 'rb').read()); i = d.index(b'GNU C Library'); d[i] ^= 1; open('../bad.tar', 'wb').write(d)\"")
    assert sandbox.run("skopeo", "copy", f"oci-archive:{sandbox.home}/bad.tar", f"dir:{sandbox.home}/copied", check=False).status
    sandbox.run("skopeo", "copy", f"oci-archive:{sandbox.home}/image.tar", f"dir:{sandbox.home}/copied2")


def test_images_on_bad_ground(sandbox):
    """No room, an output that exists, a secret."""
    token = "geheim-4712"
    sandbox.write(".env", token)
    sandbox.write("in", "in\n")
    command = record(sandbox, "sh", "-c", "cat in .env | wc -c > out")
    made = export_image(sandbox, command, check=3)
    assert ".env is secret" in made.stderr and not sandbox.sh(f"grep -l {token} ../image.tar", check=False).stdout
    sandbox.shfs("export", "oci", command, "-o", "../image.tar", check=4)
    full = 'mount -t tmpfs -o size=1m tmpfs /mnt && shfs export oci "$0" -o /mnt/i.tar; echo =$?; ls -A /mnt'
    made = sandbox.run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", full, command, check=False, timeout=60)
    assert made.stdout == "=1\n" and "No space left on device" in made.stderr, made


# --- Dockerfiles ---


def export_dockerfile(sandbox, *operands, **options):
    sandbox.sh("rm -rf ../docker")
    return sandbox.shfs("export", "dockerfile", *operands, "-o", "../docker", timeout=90, **options)


def packages_of(sandbox):
    """{package: version} of the Dockerfile."""
    text = sandbox.read("../docker/Dockerfile").decode()
    return dict(re.findall(r"^    (\S+?)=(\S+)", text, re.M))


@pytest.mark.parametrize("name", ["pipeline", "perl", "gcc", "numpy"] if ALL else ["pipeline", "gcc"])
def test_dockerfiles(sandbox, name):
    """Its packages, as they are installed, and what it copies are enough. (No registry is asked: the files of the
    packages and of what is essential stand for the image.)"""
    line, results = prepare(sandbox, name)
    command = record(sandbox, "sh", "-c", line)
    made = export_dockerfile(sandbox, command)
    packages = packages_of(sandbox)
    assert not made.stderr and packages
    installed = sandbox.run("dpkg-query", "-W", "-f", "${Package}=${Version} ${Essential}\\n").stdout.split("\n")
    assert not {f"{package}={version}" for package, version in packages.items()} - {line.split(" ")[0] for line in installed}
    essential = {line.split("=")[0] for line in installed if line.endswith(" yes")}
    listed = sandbox.run("dpkg-query", "-L", *sorted(essential | set(packages)), "libcrypt1", "libtinfo6", "libselinux1", "libacl1").stdout.split("\n")
    sandbox.sh("mkdir -p ../image/usr/bin ../image/usr/sbin ../image/usr/lib ../image/usr/lib64; cp -a --parents -t ../image /bin /lib /lib64 /sbin")
    files = [path for path in listed if path.startswith("/") and (os.path.islink(path) or os.path.isfile(path)) and os.access(path, os.R_OK)]
    sandbox.run("tar", "c", "--null", "-T", "-", "-f", "../image.tar", "-P", input="\0".join(sorted(set(files))), timeout=90)
    sandbox.sh("tar xf ../image.tar -C ../image && cp -a ../docker/root/. ../image/ && mkdir -p ../image/proc ../image/dev", timeout=90)
    if not can_be_bare():
        pytest.skip("no namespaces here")
    ran = sandbox.sh("exec bwrap --unshare-all --clearenv --bind ../image / --proc /proc --dev /dev --chdir / /bin/sh /.bundle/steps.sh", timeout=60)
    for result in results:
        assert f"{result}: OK" in ran.stdout
    assert not any(path.endswith("/libc.so.6") for path in sandbox.sh("find ../docker/root").stdout.split())


def test_dockerfile_has_what_no_package_has(sandbox):
    """Programs that were built here are copied."""
    program = sandbox.compile("own", "#include <stdio.h>\nint main(void) { puts(\"own\"); return 0; }\n")
    command = record(sandbox, "sh", "-c", f"{program} > out")
    export_dockerfile(sandbox, command)
    assert os.access(f"{sandbox.home}/docker/root{program}", os.X_OK) and "libc6" in packages_of(sandbox)
    readme = sandbox.read("../docker/README.md").decode()
    assert "docker build" in readme and "FROM " in sandbox.read("../docker/Dockerfile").decode()
    assert export_dockerfile(sandbox, command).status == 0
    again = sandbox.shfs("export", "dockerfile", command, "-o", "../docker", check=4)
    assert "no empty directory" in again.stderr
