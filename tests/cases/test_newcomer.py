# SPDX-License-Identifier: MIT
"""The packages, as a newcomer meets them: built by ./dev deb, installed in a fresh Debian, used in real shells
over a reboot and an upgrade, removed; and what ./dev install puts below a prefix."""

import json
import os
import re
import shutil
import signal
import subprocess
import types

import pexpect
import pytest

import browser as browsers
import harness

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(os.environ["SHFS_TEST_DIR"], "newcomer")
LOGIN = "ada"

pytestmark = [
    pytest.mark.apart,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("newcomer"),  # they share the packages, and a root
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def do(*argv, **how):
    """Runs it, and fails the test with all that it said; returns what it printed."""
    run = subprocess.run(argv, capture_output=True, text=True, check=False, **how)
    assert run.returncode == 0, f"{argv} ended with {run.returncode}:\n{run.stdout}{run.stderr}"
    return run.stdout


# --- the packages ---


@pytest.fixture(scope="session", autouse=True)
def place():
    """A file system of its own for all that is written, where root can make one: fanotify tells of all events of one
    that is watched, and the drivers' cases that run meanwhile want theirs alone."""
    os.makedirs(SHARED, exist_ok=True)
    if os.geteuid() != 0:
        yield
        return
    image = f"{SHARED}.img"
    with open(image, "wb") as file:
        file.truncate(8 << 30)
    do("mkfs.ext4", "-q", "-O", "^has_journal", image)
    do("mount", "-o", "loop", image, SHARED)
    yield
    do("umount", "--lazy", SHARED)
    os.unlink(image)


def build(where, **variables):
    os.makedirs(where)
    os.makedirs(f"{SHARED}/tmp", exist_ok=True)
    env = {**os.environ, "TMPDIR": f"{SHARED}/tmp", **variables}
    print(do(f"{TOP}/dev", "deb", "--output", where, env=env))
    return {name.split("_")[0]: os.path.join(where, name) for name in os.listdir(where) if name.endswith(".deb")}


@pytest.fixture(scope="session")
def packages():
    """{name: path}; to be optimized takes longer than to be tried, and so does only ./dev test --all."""
    return build(f"{SHARED}/packages", **({} if harness.ALL else {"DEB_BUILD_OPTIONS": "noopt"}))


def unpacked(deb, where):
    do("dpkg-deb", "-x", deb, str(where))
    return [os.path.join(top, name) for top, dirs, files in os.walk(where) for name in dirs + files]


def test_what_is_in_the_packages(packages, tmp_path):
    """./dev deb has lintian look at them: here is what it does not know."""
    assert set(packages) == {"shfs", "shfs-dkms", "shfs-doc"}
    paths = {name: unpacked(deb, tmp_path / name) for name, deb in packages.items()}
    for path in sum(paths.values(), []):
        assert os.path.islink(path) or not os.lstat(path).st_mode & 0o6000, path
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                assert SHARED.encode() not in file.read(), f"{path} names where it was built"
    names = {os.path.relpath(path, tmp_path / "shfs") for path in paths["shfs"]}
    assert names >= {
        "usr/bin/shfs", "usr/sbin/shfs-helper", "usr/libexec/shfs/shfs-fuse", "usr/share/man/man1/shfs.1.gz",
        "usr/lib/systemd/user/shfs.service", "lib/systemd/system/shfs-helper.socket",
        "usr/share/zsh/vendor-completions/_shfs", "usr/share/bash-completion/completions/shfs",
        "usr/share/fish/vendor_completions.d/shfs.fish", "usr/share/doc/shfs/copyright",
    }  # fmt: skip
    assert {"shfs-bash.so", "shfs_zsh.so"} <= {os.path.basename(name) for name in names}
    # the links of the pages hold
    assert os.path.exists(tmp_path / "shfs-doc/usr/share/doc/shfs/docs/ARCHITECTURE.md")
    with open(f"{TOP}/meson.build", encoding="utf-8") as file:
        version = re.search(r"version: '(.*)'", file.read())[1]
    assert do("dpkg-deb", "-f", packages["shfs"], "Version").strip() == version
    assert os.path.exists(tmp_path / f"shfs-dkms/usr/src/shfs-{version}/dkms.conf")


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])  # Debian 12's and 13's
def test_the_module_is_built_by_dkms(packages, kernel, tmp_path):
    unpacked(packages["shfs-dkms"], tmp_path)
    run = f"{TOP}/tests/vm/run"
    headers, release = (do(run, what, kernel).strip() for what in ("--build-dir", "--release"))
    version = os.listdir(tmp_path / "usr/src")[0].removeprefix("shfs-")
    (tmp_path / "dkms").mkdir()
    do(
        "dkms", "build", "-m", "shfs", "-v", version, "-k", release, "--arch", "x86_64",
        "--sourcetree", str(tmp_path / "usr/src"), "--dkmstree", str(tmp_path / "dkms"),
        "--kernelsourcedir", headers,
        # the type information needs another program, and the kernel's own (test_vm.py)
        env={**os.environ, "MAKEFLAGS": "CONFIG_DEBUG_INFO_BTF_MODULES="},
    )  # fmt: skip
    made = [os.path.join(top, name) for top, _, names in os.walk(tmp_path / "dkms") for name in names if ".ko" in name]
    assert made
    assert {do("/sbin/modinfo", "-F", "vermagic", module).split()[0] for module in made} == {release}


@pytest.mark.long
def test_two_builds_are_one(packages, tmp_path):
    """In another directory, at another time, by another user's mask."""
    again = build(str(tmp_path / "a/longer/path/than/before"))
    for name, deb in packages.items():
        with open(deb, "rb") as one, open(again[name], "rb") as other:
            assert one.read() == other.read(), name


# --- a fresh Debian ---

# It begins with a root of its own and ends with this process: so do all that run in it, and its mounts.
BOOT = """
set -e
cd "$1"
mount --bind . . && cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
pivot_root . mnt
cd /
umount -l mnt
echo up
exec sh -c 'while :; do sleep 1000 & wait; done'
"""


def sources():
    """Those of Debian that this machine's apt has, and how it reaches them."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    lines = do("apt-get", "indextargets", "--format", form, "Created-By: Packages", "Origin: Debian").splitlines()
    with open("/etc/os-release", encoding="utf-8") as file:
        suite = re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M)[1]
    ours = [f"deb {line}" for line in lines if line.split()[1].startswith(suite)]
    kept = re.compile(r"Acquire::(https?::.*|Check-Valid-Until|Check-Date) ")
    options = [line for line in do("apt-config", "dump").splitlines() if kept.match(line)]
    return suite, ours, options


class Machine:
    """A fresh Debian in namespaces of its own."""

    def __init__(self, root):
        self.root = root
        suite, lines, options = sources()
        argv = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=zsh,fish"]
        do(*argv, *(f"--aptopt={option}" for option in options), suite, root, *lines)
        shutil.copy("/etc/resolv.conf", f"{root}/etc/resolv.conf")
        with open(f"{root}/etc/default/locale", "w", encoding="ascii") as file:
            file.write("LANG=C.UTF-8\n")
        if not os.path.lexists(f"{root}/etc/mtab"):
            os.symlink("../proc/self/mounts", f"{root}/etc/mtab")
        do("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", LOGIN)
        self.boot()
        self.apt("update")

    def boot(self):
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        argv = ["setpriv", "--pdeathsig", "KILL", *unshare, "sh", "-c", BOOT, "boot", self.root]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout.readline() == "up\n"
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
            self.enter = ["nsenter", "--target", children.read().strip(), "--mount", "--pid"]

    def off(self):
        """As if the power was cut."""
        os.kill(int(self.enter[2]), signal.SIGKILL)
        self.process.wait()  # it waits for all of them
        self.process.stdout.close()

    def reboot(self):
        self.off()
        self.boot()

    def run(self, script, user=LOGIN, check=True):
        """As a login of the user; returns what was printed, with the errors."""
        su = ["su", "-l", user, "-s", "/bin/sh", "-c", script]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        run = subprocess.run([*self.enter, *su], text=True, check=False, **how)
        assert not check or run.returncode == 0, f"{script!r} ended with {run.returncode}:\n{run.stdout}"
        return run.stdout

    def apt(self, *args):
        return self.run(f"DEBIAN_FRONTEND=noninteractive apt-get -q -y {' '.join(args)}", "root")

    def install(self, *debs):
        for deb in debs:
            shutil.copy(deb, f"{self.root}/srv")
        return self.apt("install", *(f"/srv/{os.path.basename(deb)}" for deb in debs))

    def mounts(self):
        return self.run("findmnt --list --noheadings --output TARGET --types fuse.shfs", check=False).split()


class Terminal(harness.Shell):
    """An interactive login of the newcomer."""

    def __init__(self, machine, kind):
        self.kind, self.at_prompt, self.pause = kind, False, 0
        self.sandbox = types.SimpleNamespace(mounts=[])
        argv = [*machine.enter, "setsid", "--ctty", "su", "-l", LOGIN, "-s", f"/usr/bin/{kind}"]
        self.pty = pexpect.spawn(
            argv[0], argv[1:], env={**os.environ, "TERM": "xterm"}, dimensions=(500, 200), encoding="utf-8",
            codec_errors="surrogateescape", timeout=20 * harness.PATIENCE,
        )  # fmt: skip
        self.pty.delaybeforesend = None
        self.pty.expect_exact(self.READY)
        text = self.pty.before
        self.pty.expect_exact(self.PROMPT)
        self.at_prompt = True
        self.greeting = self.plain(text + self.pty.before)


RC_LINES = {
    "bash": 'command -v shfs >/dev/null && eval "$(shfs init bash)"\n',
    "zsh": 'command -v shfs >/dev/null && eval "$(shfs init zsh)"\n',
    "fish": "type -q shfs; and shfs init fish | source\n",
}


def write_rc_files(machine):
    """With the line that README.md and shfs-init(1) give."""
    with open(f"{TOP}/man/shfs-init.1.scd", encoding="utf-8") as file:
        page = file.read()
    for kind, line in RC_LINES.items():
        assert line in page
        name, rc = harness.Shell.RC[kind]
        path = f"{machine.root}/home/{LOGIN}/{name}"
        machine.run(f"mkdir -p ~/{os.path.dirname(name) or '.'}; touch ~/{name}")
        with open(path, "a", encoding="utf-8") as file:
            file.write(rc + line)


@pytest.fixture
def machine():
    os.makedirs(SHARED, exist_ok=True)
    made = Machine(f"{SHARED}/root")
    yield made
    made.off()
    shutil.rmtree(made.root, ignore_errors=True)


# --- the hour of a newcomer ---


def history(machine, project):
    """Texts of the commands that are recorded there, the earliest first."""
    found = json.loads(machine.run(f"cd {project} && shfs history --json --all --cwd ."))["commands"]
    return [command["text"] for command in found][::-1]


def first_hour(machine, kind):
    """A project is enabled, worked in, asked about; a content is put back, and a mistake undone."""
    shell, project = Terminal(machine, kind), f"~/{kind}"
    assert shell.greeting == ""
    shell.run(f"mkdir {project} && cd {project}")
    shell.run("printf '3\\n1\\n2\\n' >data")
    assert "is mounted" in shell.run("shfs enable .")
    assert shell.run("sort data >sorted") == ""
    assert shell.run("sed s/1/one/ sorted >named") == ""
    said = shell.run("shfs history")
    assert "sort data >sorted" in said and "sed s/1/one/ sorted >named" in said
    assert "sorted@1" in shell.run("shfs log sorted")
    assert "sort data >sorted" in shell.run("shfs why named")

    shell.run("echo 0 >data")
    assert "sorted" in shell.run("shfs stale")
    shell.run("shfs restore data@1")
    assert shell.run("cat data") == "3\n1\n2"

    shell.run("rm data sorted; echo oops >named")
    assert shell.run("cat data named").endswith("oops")
    shell.run("shfs undo --last --yes")
    assert shell.run("cat data named") == "3\n1\n2\none\n2\n3"
    assert "is complete" in shell.run("shfs doctor")
    shell.close()
    return history(machine, project)


SIZES = {"laptop": (1280, 800), "phone": (390, 844)}
# where the node of a version is seen: left, top, right, bottom
NODE = """(() => {{
    const node = [...document.querySelectorAll('#picture .node')].find((n) => n.lastChild.textContent === {name!r}), box = node?.getBoundingClientRect();
    return box ? [box.left, box.top, box.right, box.bottom] : null;
}})()"""


def is_seen(browser, name, size):
    left, top, right, bottom = browser.run(NODE.format(name=name)) or [-1] * 4
    return left >= 0 and top >= 0 and right <= size[0] and bottom <= size[1]


def look_at_the_page(machine, kind):
    """Served there, and looked at in a browser of this host, which has the same loopback."""
    if not browsers.program():
        return
    shell = Terminal(machine, kind)
    shell.run(f"cd ~/{kind} && sort -r data >downwards")
    script = f"cd ~/{kind} && echo $$ && exec shfs web --no-browser --port 0 ."
    argv = [*machine.enter, "su", "-l", LOGIN, "-s", "/bin/sh", "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as web:
        pid, url = web.stdout.readline().strip(), web.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), url
        browser = browsers.Browser()
        try:
            for name, size in SIZES.items():
                browser.resize(*size)
                browser.go("about:blank")
                browser.go(url)
                browser.wait("document.documentElement.dataset.whole === 'yes'")
                assert browser.text("#graph-of") == "Latest results"
                assert is_seen(browser, "downwards@1", size), name
                assert browser.run("document.documentElement.scrollWidth") <= size[0]
                # what is done now comes by itself
                shell.run(f"sort -n data >by-{name}")
                browser.wait(f"!!{NODE.format(name=f'by-{name}@1')}")
                if "SHFS_TEST_PICTURES" in os.environ:
                    browser.picture(os.path.join(os.environ["SHFS_TEST_PICTURES"], f"newcomer-{name}.png"))
            assert browser.errors == []
        finally:
            browser.close()
            machine.run(f"kill {pid}")
        assert web.wait(60) == 0
    shell.close()


def after_reboot(machine, kind, before):
    """A login goes to the project: it is recorded again, with all that was before."""
    project = f"/home/{LOGIN}/{kind}"
    assert project not in machine.mounts()
    shell = Terminal(machine, kind)
    said = shell.run(f"cd {project}")
    assert project in machine.mounts(), said
    shell.run("echo after the reboot >after")
    assert "echo after the reboot >after" in shell.run("shfs why after")
    shell.close()
    now = history(machine, project)
    assert now[: len(before)] == before and "echo after the reboot >after" in now


def processes(machine):
    """{pid: program} of shfs, as the kernel names it: also whether it is there no more."""
    said = machine.run("for p in /proc/[0-9]*; do echo ${p#/proc/} $(readlink $p/exe); done", "root")
    return {pid: exe for pid, exe in (line.split(" ", 1) for line in said.splitlines() if " " in line) if "/shfs" in exe}


def of_version(deb, version, where):
    """The same package, as if it was of another version."""
    do("dpkg-deb", "-R", deb, str(where / "tree"))
    control = where / "tree/DEBIAN/control"
    control.write_text(re.sub("^Version: .*", f"Version: {version}", control.read_text(), flags=re.M))
    made = str(where / f"shfs_{version}_all.deb")
    do("dpkg-deb", "--root-owner-group", "-b", str(where / "tree"), made)
    return made


def upgrade(machine, newer, project):
    """The mount of the old version goes on, new commands ask it; the next mount is of the new one."""
    shell = Terminal(machine, "bash")
    shell.run(f"cd {project}")
    shell.run("exec 3>>held; echo before >&3")
    said = machine.install(newer)
    assert "Unpacking shfs" in said and "over (" in said, said
    old = {pid for pid, exe in processes(machine).items() if exe == "/usr/libexec/shfs/shfs-fuse (deleted)"}
    assert old and project in machine.mounts()
    shell.run("echo meanwhile >&3; exec 3>&-")
    shell.run("tr a-z A-Z <held >upper")
    assert shell.run("cat upper") == "BEFORE\nMEANWHILE"
    assert "tr a-z A-Z <held >upper" in shell.run("shfs why upper")
    assert project in [mount["path"] for mount in json.loads(machine.run("shfs status --json"))["mounts"]]
    shell.run(f"cd && shfs umount {project} && shfs mount {project}; cd {project}")
    assert "/usr/libexec/shfs/shfs-fuse" in processes(machine).values()
    shell.run("echo new >new")
    assert "echo new >new" in shell.run("shfs why new")
    assert shell.run("shfs check --read-data; echo $?").endswith("0")
    shell.close()


def remove(machine, project):
    """What is mounted goes on, and no shell has a word to say: neither one that runs, nor a new one."""
    shells = {kind: Terminal(machine, kind) for kind in RC_LINES}
    said = machine.apt("remove", "shfs")
    assert "still mounted and recorded" in said and project in said, said
    assert "below ~/.local/share/shfs" in said
    for kind, shell in shells.items():
        assert shell.run(f"cd {project}") == ""
        assert shell.run(f"echo {kind} >removed-{kind}") == ""
        assert shell.run(f"cat removed-{kind}") == kind
        assert shell.run("cd") == ""
        shell.close()
        new = Terminal(machine, kind)
        assert new.greeting == ""
        assert new.run("echo $HOME") == f"/home/{LOGIN}"
        new.close()
    for mount in machine.mounts():
        machine.run(f"fusermount3 -u {mount}")
    assert machine.run(f"cat {project}/removed-zsh") == "zsh\n"


def names_of(machine, what):
    return set(machine.run(f"find {what} -xdev -name 'shfs*' -o -xdev -name '_shfs*'", "root").split())


@needs_root
def test_newcomer(packages, machine, tmp_path):
    said = machine.install(packages["shfs"], packages["shfs-doc"])
    assert not re.search(r"(?im)^(error|warning|E:|W:)", said), said
    write_rc_files(machine)
    findings = json.loads(machine.run("shfs doctor --json", check=False))
    assert [f for f in findings["checks"] if f["level"] == "fail"] == []
    assert machine.run("zsh -ic 'autoload -U compinit && compinit -u && print $_comps[shfs]'").split()[-1] == "_shfs"
    shutil.copy(f"{TOP}/debian/tests/journal", f"{machine.root}/srv")
    machine.run("/srv/journal")

    before = {kind: first_hour(machine, kind) for kind in ("bash", "zsh")}
    look_at_the_page(machine, "bash")
    machine.reboot()
    assert machine.mounts() == []
    for kind, texts in before.items():
        after_reboot(machine, kind, texts)
    project = f"/home/{LOGIN}/bash"
    upgrade(machine, of_version(packages["shfs"], "1.0.0+next", tmp_path), project)

    remove(machine, project)
    # what was recorded meanwhile is there
    machine.install(packages["shfs-doc"], str(tmp_path / "shfs_1.0.0+next_all.deb"))
    texts = history(machine, project)
    assert texts[: len(before["bash"])] == before["bash"]
    for kind in RC_LINES:
        assert f"echo {kind} >removed-{kind}" in texts
        assert f"removed-{kind}@1" in machine.run(f"cd {project} && shfs log removed-{kind}")
    machine.run("shfs check --read-data")

    machine.reboot()  # nothing of it runs
    machine.apt("purge", "--auto-remove", "shfs", "shfs-doc")
    assert machine.run("dpkg-query -W -f '${Package}\\n' '*shfs*'", check=False).startswith("dpkg-query: no packages")
    left = names_of(machine, "/")
    # fish makes completions of all man pages that it finds
    left = {name for name in left if not name.startswith("/srv/") and "/fish/generated_completions/" not in name}
    assert left == {f"/home/{LOGIN}/.local/share/shfs", f"/home/{LOGIN}/.cache/shfs"}
    assert machine.run("find .cache/shfs -type f") == ""
    assert machine.run("cat bash/data") == "3\n1\n2\n"


@needs_root
@pytest.mark.long
def test_the_module_is_installed_by_its_package(packages, machine):
    machine.apt("install", "linux-headers-amd64")
    machine.install(packages["shfs-dkms"])
    assert re.search(r"^shfs/[\d.]+, .*: installed$", machine.run("dkms status", "root"), re.M)
    assert machine.run("find /lib/modules -name 'shfs.ko*'", "root")
    machine.apt("purge", "shfs-dkms")
    assert names_of(machine, "/usr/src /lib/modules /var/lib/dkms") == set()


# --- a prefix ---


def test_a_prefix_of_a_user_has_what_a_user_can_use(tmp_path):
    setup = ["meson", "setup", "-Db_sanitize=none", "-Dtests=false", "-Dmap=disabled"]

    def files(name, *options):
        do(*setup, *options, "--prefix", "/p", str(tmp_path / name), TOP)
        listed = json.loads(do("meson", "introspect", "--installed", str(tmp_path / name)))
        return {os.path.relpath(path, "/p") for path in listed.values()}

    ours, all_of_them = files("user", "-Dsystem=false"), files("system")
    assert {"bin/shfs", "libexec/shfs/shfs-fuse", "share/systemd/user/shfs.service", "share/man/man1/shfs.1"} <= ours
    apart = {name for name in all_of_them - ours if not name.startswith("src/shfs-")}
    assert apart == {
        "lib/systemd/system/shfs-helper.service", "lib/systemd/system/shfs-helper.socket", "share/doc/shfs/apparmor",
        "lib/systemd/user/shfs.service", "lib/systemd/user/shfs-push.service", "lib/systemd/user/shfs-push.timer",
    }  # fmt: skip
    assert not any(name.startswith(("src/", "lib/systemd/")) for name in ours)


SMALL = """project('small')
install_data('one', 'two', install_dir: get_option('prefix') / 'bin')
install_data('one', install_dir: get_option('prefix') / 'libexec/shfs')
if get_option('system')
  install_data('one', install_dir: get_option('prefix') / 'lib/systemd/system')
endif
"""


def files_below(where):
    return sorted(str(path.relative_to(where)) for path in where.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("name", ["packages", "a [b]*"])
def test_packages_into_the_tree_itself(tmp_path, name):
    """What is copied to be built is not the copy."""
    tree, tools = tmp_path / "tree", tmp_path / "path"
    for path in tree / "map/node_modules", tree / "debian", tree / "other", tools:
        path.mkdir(parents=True)
    (tree / "map/package-lock.json").write_text("{}")
    (tree / "map/node_modules/.package-lock.json").write_text("{}")
    (tree / "other/file").write_text("of the tree")
    shutil.copy(f"{TOP}/dev", tree)
    shutil.copy(f"{TOP}/debian/changelog", tree / "debian")
    (tools / "dpkg-buildpackage").write_text(f"#!/bin/sh\nfind . -type f >{tmp_path}/seen; : >../shfs.deb\n")
    (tools / "lintian").write_text("#!/bin/sh\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    before = files_below(tree)
    for _ in range(2):
        do(str(tree / "dev"), "deb", "--output", name, env=env, cwd=tree)
        assert sorted(line[2:] for line in (tmp_path / "seen").read_text().splitlines()) == before
    run = subprocess.run([tree / "dev", "deb", "--output", "."], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "does not hold this tree" in run.stderr


def test_uninstall_undoes_install(tmp_path):
    """What ./dev does, with a project that takes no time to build."""
    tree, home = tmp_path / "tree", tmp_path / "home"
    (tree / "map/node_modules").mkdir(parents=True)
    (tree / "map/package-lock.json").write_text("{}")
    (tree / "map/node_modules/.package-lock.json").write_text("{}")
    for name in "one", "two":
        (tree / name).write_text(name)
    (tree / "meson.build").write_text(SMALL)
    (tree / "meson_options.txt").write_text(
        "".join(f"option('{name}', type: 'boolean', value: true)\n" for name in ("tests", "system"))
    )
    shutil.copy(f"{TOP}/dev", tree)
    systemctl, asked = tmp_path / "path/systemctl", tmp_path / "asked"
    systemctl.parent.mkdir()
    systemctl.write_text(f"#!/bin/sh\n[ $1 = show ] && echo {tmp_path}/all/lib/systemd/system/one || echo $* >> {asked}\n")
    systemctl.chmod(0o755)
    env = {**os.environ, "HOME": str(home), "PATH": f"{systemctl.parent}:{os.environ['PATH']}"}

    def dev(*args):
        return do(str(tree / "dev"), *args, env=env)

    store, other = home / ".local/share/shfs/journal", home / ".local/bin/other"
    for path in store, other:
        path.parent.mkdir(parents=True)
        path.write_text("the user's")
    before = files_below(home)
    dev("install", f"--prefix={home}/.local")
    assert (home / ".local/bin/two").exists() and not (home / ".local/lib").exists()
    # a later version has one file less
    (tree / "meson.build").write_text(SMALL.replace("'one', 'two'", "'one'"))
    dev("install", f"--prefix={home}/.local")
    assert (home / ".local/bin/one").exists() and not (home / ".local/bin/two").exists()
    dev("uninstall", f"--prefix={home}/.local")
    assert files_below(home) == before
    assert not (home / ".local/libexec").exists()
    assert not asked.exists(), "the helper is of another install"
    if os.geteuid() == 0:
        dev("install", f"--prefix={tmp_path}/all")
        assert (tmp_path / "all/lib/systemd/system/one").exists()
        dev("uninstall", f"--prefix={tmp_path}/all")
        assert list((tmp_path / "all").iterdir()) == []
        assert asked.read_text() == "disable --now shfs-helper.socket shfs-helper.service\n"
    run = subprocess.run([tree / "dev", "uninstall", f"--prefix={home}/.local"], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "has installed nothing" in run.stderr
    run = subprocess.run([tree / "dev", "uninstall", "--prefix=/"], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "not / itself" in run.stderr and not run.stdout
