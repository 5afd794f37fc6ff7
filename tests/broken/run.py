# SPDX-License-Identifier: MIT
"""What holds a promise of docs/RELIABILITY.md fails where the promise is broken: each *.break beside this
breaks one by a few words, and names in its first line the test that notices. ./dev broken [FNN...] builds
a copy of the tree with each of them in turn and wants that test to fail, by what it asserts, and to pass
without. With --check nothing is built: does each edit find its place?"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import edit

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRATCH = os.path.join(ROOT, "build-broken")
TREE, BUILD = os.path.join(SCRATCH, "tree"), os.path.join(SCRATCH, "build")


class Break:
    def __init__(self, path):
        self.name = os.path.basename(path).removesuffix(".break")
        try:
            self.test, self.edits = edit.parse(edit.read(path))
        except edit.Misplaced as e:
            sys.exit(f"{path}: {e}")

    def apply(self, tree):
        """In memory alone; why not, or None."""
        try:
            for one in self.edits:
                tree.apply(one)
        except edit.Misplaced as e:
            return str(e)
        return None


def chosen(words):
    """Those of the faults, or with the names, that are asked for; all without any."""
    breaks = [Break(path) for path in sorted(glob.glob(f"{HERE}/F*.break"))]
    if not words:
        return breaks
    wanted = [re.sub(r"^F(\d)$", r"F0\1", word) for word in words]
    for word in wanted:
        if not any(b.name.startswith(word) for b in breaks):
            sys.exit(f"broken: there is no {word}*.break")
    return [b for b in breaks if b.name.startswith(tuple(wanted))]


def run(*argv, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"} | options
    return subprocess.run(argv, **options)


def must(*argv, **options):
    done = run(*argv, **options)
    if done.returncode:
        sys.exit(f"broken: {' '.join(argv)}:\n{done.stdout}")
    return done.stdout


def same(a, b):
    try:
        with open(a, "rb") as one, open(b, "rb") as other:
            return one.read() == other.read()
    except FileNotFoundError:
        return False


def copy_tree():
    """What has not changed keeps its time, so that little is built."""
    names = must("git", "ls-files", "-z", "-co", "--exclude-standard", cwd=ROOT, stderr=None).split("\0")
    names = {name for name in names if name and os.path.lexists(os.path.join(ROOT, name))}
    for top, folders, files in os.walk(TREE):
        folders[:] = [f for f in folders if f != "node_modules"]
        for path in (os.path.join(top, name) for name in files):
            if os.path.relpath(path, TREE) not in names:
                os.unlink(path)
    for name in names:
        source, target = os.path.join(ROOT, name), os.path.join(TREE, name)
        if not same(source, target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)
    modules = os.path.join(ROOT, "map/node_modules")
    if os.path.isdir(modules) and not os.path.lexists(f"{TREE}/map/node_modules"):
        os.symlink(modules, f"{TREE}/map/node_modules")
    if not os.path.exists(f"{BUILD}/build.ninja"):
        must("meson", "setup", BUILD, TREE)


def targets(tests):
    """What these tests need: of the unit tests their own programs, which take long to link."""
    units = {found[1] for t in tests if (found := re.match(r"test_unit\.py::test_unit\[(\w+):", t))}
    with_cases = any(t.startswith("cases/") for t in tests)
    for target in json.loads(must("meson", "introspect", "--targets", BUILD, stderr=None)):
        for name in (os.path.relpath(f, BUILD) for f in target["filename"] if target["build_by_default"]):
            unit = re.fullmatch(r"tests/unit/test_(\w+)", name)
            if unit[1] in units if unit else with_cases:
                yield name


def build(tests):
    """What the compiler said of an error, or None."""
    names = list(targets(tests))
    if not names:
        return None
    done = run("ninja", "-C", BUILD, "--quiet", *names)
    return done.stdout if done.returncode else None


def outcomes(stage, tests):
    """{(file, test without its parameters): [(outcome, what was said)]}, and pytest's own words."""
    if any(t.startswith("cases/") for t in tests):
        must("meson", "install", "-C", BUILD, "--no-rebuild", "--only-changed", "--quiet", umask=0o022,
             env=os.environ | {"DESTDIR": f"{stage}/install"})
    report = f"{stage}/report.xml"
    if os.path.exists(report):
        os.unlink(report)
    env = os.environ | {
        "SHFS_TEST_DIR": stage, "SHFS_TEST_BUILD": BUILD, "SHFS_TEST_PREFIX": f"{stage}/install/usr/local",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    said = run(sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "--rootdir", "tests", "--basetemp", f"{stage}/pytest",
               "--junitxml", report, "-o", "junit_family=xunit1", *(f"tests/{t}" for t in tests), cwd=TREE, env=env)
    found = {}
    for case in xml.parse(report).iter("testcase") if os.path.exists(report) else ():
        kinds = {child.tag: child.get("message", "") for child in case}
        kind = next((k for k in ("error", "failure", "skipped") if k in kinds), "passed")
        name = f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
        found.setdefault(name, []).append((kind, kinds.get(kind, "")))
    return found, said.stdout


def of_test(found, test):
    """A test without its parameters is all of them."""
    names = [n for n in found if n == test or n.startswith(test + "[")]
    return [outcome for n in names for outcome in found[n]]


def is_assertion(message):
    """Not another exception, or a time that has passed."""
    message = re.sub(r'^failed on (setup|teardown) with "', "", message)
    return message.startswith("AssertionError") or not re.match(r"[\w.]*(Error|Exception|Expired|Timeout|TIMEOUT|EOF)\b", message)


def judge(results):
    """None where the break is noticed, or why not."""
    kinds = [kind for kind, _ in results]
    failures = [message for kind, message in results if kind in ("failure", "error")]
    if any(is_assertion(m) for m in failures):
        return None
    if failures:
        return f"it failed, but not by what it asserts: {failures[0][:200]}"
    return "it passes all the same" if "passed" in kinds else "it did not run"


def try_unbroken(stage, breaks):
    """{test: why it tells nothing} of those that do not pass without any edit."""
    tests = sorted({b.test for b in breaks})
    if error := build(tests):
        sys.exit(f"broken: the tree does not build:\n{error}")
    found, said = outcomes(stage, tests)
    bad = {}
    for test in tests:
        kinds = {kind for kind, _ in of_test(found, test)}
        if kinds - {"passed", "skipped"}:
            bad[test] = "it fails without it, too"
        elif "passed" not in kinds:
            bad[test] = "it does not run here"
    if bad:
        print(said)
    return bad


def try_break(stage, b):
    tree = edit.Tree(TREE)
    if why := b.apply(tree):
        return why
    tree.write()
    try:
        if error := build([b.test]):
            return f"it does not build:\n{error}"
        found, said = outcomes(stage, [b.test])
        why = judge(of_test(found, b.test))
        if why:
            print(said)
        return why
    finally:
        tree.revert()


def check(breaks):
    """Whether each finds its place in the sources as they are."""
    tree, lost = edit.Tree(ROOT), 0
    for b in breaks:
        if why := b.apply(tree):
            print(f"tests/broken/{b.name}.break: {why}")
            lost += 1
        tree.forget()
    return lost > 0


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    breaks = chosen(words)
    if "--check" in sys.argv:
        sys.exit(check(breaks))
    copy_tree()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="shfs-test.", ignore_cleanup_errors=True) as stage:
        os.chmod(stage, 0o755)
        with open(f"{stage}/pid", "w", encoding="ascii") as pid:  # ./dev's sign of a run that goes on
            pid.write(str(os.getpid()))
        bad = try_unbroken(stage, breaks)
        for b in breaks:
            why = bad.get(b.test) or try_break(stage, b)
            missed += why is not None
            print(f"{b.name}: " + (f"NOT noticed by {b.test}: {why}" if why else f"noticed by {b.test}"), flush=True)
    print(f"{len(breaks) - missed} noticed, {missed} not noticed")
    sys.exit(missed > 0)


main()
