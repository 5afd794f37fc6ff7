# SPDX-License-Identifier: MIT
"""What is secret by the name of its file is in no file of the store, however it came by that name."""

import itertools
import json
import os
import re

import pytest

from harness import wait_until
from test_forget import Packs, unzstd

NAMES = [
    ".env", "prod.env", ".env.local", ".envrc", "server.key", "tls/ca.pem", "id_rsa", "deploy/id_ed25519", ".ssh/config",
    ".netrc", ".git-credentials", ".pgpass", ".npmrc", ".pypirc", "credentials.json", "secrets.yaml", "kaggle.json",
    ".aws/credentials", ".kube/config", "main.tfvars", "vault.kdbx", ".docker/config.json", ".htpasswd", ".git/config",
    ".my.cnf",
]

# How people and programs save: $P is the file, $D its directory, $V what is secret, $T a file beside it.
WAYS = {
    "written": 'echo key=$V > $P',
    "sed": 'echo key=nothing > $P; echo key=$V | sed -i "1r /dev/stdin" $P',
    "moved": 'echo key=$V > $T; mv $T $P',
    "moved later": 'echo key=$V > $T; sleep 0.5; mv $T $P',
    "python": "python3 -c 'import os, sys, tempfile\n"
              "f = tempfile.NamedTemporaryFile(dir=sys.argv[1], delete=False)\n"
              "f.write(b\"key=\" + os.environb[b\"V\"])\nf.flush()\nos.fsync(f.fileno())\nf.close()\n"
              "os.replace(f.name, sys.argv[2])' $D $P",
    "unnamed": "python3 -c 'import os, sys\n"
               "fd = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)\n"
               "os.write(fd, b\"key=\" + os.environb[b\"V\"])\n"
               "top = os.open(\".\", os.O_RDONLY)\n"
               "os.link(f\"/proc/self/fd/{fd}\", sys.argv[2], dst_dir_fd=top, follow_symlinks=True)\nos.close(fd)' $D $P",
    "linked": 'echo key=$V > $T; ln $T $P; rm $T',
    "copied there": 'echo key=$V > $T; cp $T $P; rm $T',
    "backups": 'echo key=$V > $P; for s in \\~ .bak .orig .old .1 .swp -backup; do cp $P $P$s; done; cp $P $D/.#${P##*/}',
    "emacs": 'echo key=$V > $P; mv $P $P~; echo key=nothing > $P',
    "moved away": 'echo key=$V > $P; mv $P $T; cat $T > /dev/null; echo other > $T',
    "copied away": 'echo key=$V > $P; cp $P $T; cp $T $T.2; echo other >> $T.3; rm $P',
    "linked away": 'echo key=$V > $P; ln $P $T; rm $P; cat $T > /dev/null; echo other > $T',
    "there before": 'cat $P > /dev/null; cp $P $T; sed -i s/nothing/other/ $P; rm $T',
    "installed": 'echo key=$V > $T; install -m 600 $T $P; rm $T',
    "appended": 'exec 3> $P; echo a >&3; cat $P > /dev/null; echo key=$V >&3; exec 3>&-; cat $P > $T',
    "saved twice": 'for i in 1 2; do echo key=$V > $T; mv $T $P; done; echo key=$V > $T; echo key=$V > $T; mv $T $P',
    "directory": 'mkdir $D/new; echo key=$V > $D/new/hosts; mv $D/new $D/.gnupg',
    "directory of one": 'mkdir $D/new; echo key=$V > $D/new/credentials; mv $D/new $D/.aws',
}


def plants():
    """150 of them: (number, name, way)."""
    pairs = [(name, way) for name, way in itertools.product(NAMES, WAYS) if "there" not in way or name[0] == "."]
    return [(i, *pairs[i * 11 % len(pairs)]) for i in range(150)]


def value(i):
    return f"plant{i:04}hunter2correct"


def found(store):
    """The plants in the store, whatever they are packed in."""
    seen = set()
    for directory, _, names in os.walk(store):
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                data = file.read()
            seen.update(re.findall(rb"plant\d{4}", data + (unzstd(data) if name.endswith(".zst") else b"")))
    packs = Packs(store)
    for data in itertools.chain(map(packs.content, packs.frames), packs.loose()):
        seen.update(re.findall(rb"plant\d{4}", data))
    return sorted(int(plant[5:]) for plant in seen)


def script(i, name, way):
    directory = f"p{i}/{os.path.dirname(name)}".rstrip("/")
    return f"D={directory}; P=p{i}/{name}; T={directory}/t.txt; V={value(i)}\n{WAYS[way]}\n"


def log(sandbox, path):
    return json.loads(sandbox.shfs("log", "--json", "--reverse", f"{sandbox.project}/{path}", cwd="/").stdout)["versions"]


@pytest.mark.backends()
def test_150_secrets(sandbox, project):
    before, there = plants(), ""
    for i, name, way in before:
        there += f"mkdir -p p{i}/{os.path.dirname(name)}\n"
        there += f"echo key={value(i)} nothing > p{i}/{name}\n" if way == "there before" else ""
    sandbox.write_outside(sandbox.home + "/before", there)
    run = "export V\n" + "".join(script(*plant) for plant in before)
    run += "echo plant9000 > data.txt; echo plant9001 > .env.example; cp .env.example .env; echo plant9002 > .env\n"
    # of what ordinary files had first, one has it still, or none
    run += "echo plant9003 > p; cp p q\necho plant9004 > r; cp r s\n"
    sandbox.write_outside(sandbox.home + "/run", run)
    sandbox.run("sh", sandbox.home + "/before", cwd=project)
    mounted = sandbox.mount()
    sandbox.run("sh", sandbox.home + "/run", cwd=project, timeout=300)
    for line in "cp p .env; rm p", "cp r .env", "rm r s; echo > .env":
        sandbox.shfs("sync")  # a late recorder may miss what is overwritten at once
        sandbox.run("sh", "-c", line, cwd=project)
    sandbox.shfs("sync")
    mounted.unmount()
    seen = found(sandbox.store)
    left = [f"{value(i)} {name} {way}" for i, name, way in before if i in seen]
    assert not left, "\n".join(left)
    assert [i for i in seen if i >= 9000] == [9000, 9001, 9003]
    assert "no flaws" in sandbox.shfs("check", cwd="/").stdout
    assert "excluded by a rule" in {v["not_archived"] for v in log(sandbox, ".env") if not v["object"]}
    assert not any(v["object"] for v in log(sandbox, ".env"))


@pytest.mark.backends()
def test_stays_secret_when_renamed(sandbox, project):
    """As long as the file lives, also once it is changed; but not what gets its number later."""
    sandbox.run("sh", sandbox.write_outside(sandbox.home + "/before", "echo plant0001 > .netrc\n"), cwd=project)
    mounted = sandbox.mount()
    run = [
        "mv .netrc old; wait; echo plant0002 >> old",
        "echo plant0003 > .env; wait; mv .env x; wait; echo plant0004 >> x; wait; mv x y; wait; echo plant0005 > y",
        "echo plant0006 > t; mv t id_rsa; wait; mv id_rsa t; wait; echo plant0007 >> t; wait; cat t > /dev/null",
        "echo plant0008 > a.key; wait; ln a.key z; wait; rm a.key; echo plant0009 >> z",
        "wait; rm y z t; echo plant9000 > new1; echo plant9001 > new2; echo plant9002 > new3; echo plant9003 > new4",
    ]
    text = "\n".join(run).replace("wait", "sleep 0.3")
    sandbox.run("sh", sandbox.write_outside(sandbox.home + "/run", text + "\n"), cwd=project)
    sandbox.shfs("sync")
    mounted.unmount()
    assert found(sandbox.store) == [9000, 9001, 9002, 9003]
    assert {v["not_archived"] for v in log(sandbox, "old")} == {"excluded by a rule"}


KEYS = {
    "deploykey": "-----BEGIN OPENSSH {}\\nplant0001\\n",
    "srv.txt": "Bag Attributes\\n-----BEGIN {}\\nplant0002\\n",
    "rsa": "-----BEGIN RSA {}\\nplant0003\\n",
    "config.yaml": "-----BEGIN ENCRYPTED {}\\nplant0004\\n",
    "sec.asc": "-----BEGIN PGP {} BLOCK-----\\nplant0005\\n",
    "putty.txt": "PuTTY-User-Key-File-3: ssh-ed25519\\nplant0006\\n",
    "age.txt": "# created: now\\nAGE-SECRET-KEY-1QQ\\nplant0007\\n",
    "lab.txt": "shfs-key-1:00010203\\nplant0010\\n",
}
PLAIN = {
    "public": "-----BEGIN PUBLIC KEY-----\\nplant9000\\n",
    "notes": "begins with -----BEGIN {}-----\\nplant9001\\n",
    "cert": "-----BEGIN CERTIFICATE-----\\nplant9002 {}\\n",
}


@pytest.mark.backends()
def test_private_keys(sandbox, project):
    """They are secret whatever the name, also where they were there before, and in what is changed."""
    lines = [f"printf -- '{text.format('PRIV' + 'ATE KEY')}' > {name}" for name, text in {**KEYS, **PLAIN}.items()]
    sandbox.run("sh", sandbox.write_outside(sandbox.home + "/before", lines[0].replace("deploykey", "there") + "\n"), cwd=project)
    mounted = sandbox.mount()
    lines += ["cat there > /dev/null; echo plant0008 >> there; cp rsa copy; mv rsa moved; echo plant0009 >> moved"]
    sandbox.run("sh", sandbox.write_outside(sandbox.home + "/run", "\n".join(lines) + "\n"), cwd=project)
    sandbox.shfs("sync")
    mounted.unmount()
    assert found(sandbox.store) == [9000, 9001, 9002]
    for name in [*KEYS, "there", "copy", "moved"]:
        if name != "rsa":
            assert log(sandbox, name)[-1]["not_archived"] == "excluded by a rule", name


@pytest.mark.users("ordinary")
def test_private_keys_that_are_wanted(sandbox, project):
    sandbox.write_outside(sandbox.home + "/.config/shfs/config.ini", "[archive]\nprivate-keys = yes\n")
    mounted = sandbox.mount()
    sandbox.sh("printf -- '-----BEGIN PRIV''ATE KEY-----\\nplant0001\\n' > k")
    sandbox.shfs("sync")
    mounted.unmount()
    assert found(sandbox.store) == [1]


@pytest.mark.users("ordinary")
def test_after_others_were_taken_out(sandbox, mounted):
    """What is archived anew for that reason is still of the file that brought it."""
    sandbox.sh("mkdir a b; for i in 1 2 3; do echo plant000$i > t$i; echo plant010$i > u$i; done")
    sandbox.shfs("sync")
    for i in "123":
        sandbox.sh(f"mv t{i} a/.env; cp u{i} b/.env")
        wait_until(lambda: log(sandbox, "a/.env")[-1]["not_archived"] == "pruned", "the secret to be taken out")
        sandbox.sh(f"rm u{i}; rm b/.env")
    sandbox.shfs("sync")
    mounted.unmount()
    assert not found(sandbox.store)


@pytest.mark.users("ordinary")
@pytest.mark.timeout(180)
def test_temporary_files_that_go_at_once(sandbox, mounted):
    """Whoever comes first: who stores what they held, who takes away others, or who reads the secret."""
    steps = 'cd $D; echo $V > r; cp r s; cp r .env; rm r s; echo > .env; echo $V > u; install u .netrc; rm u'
    lines = [f"mkdir d{i}; (D=d{i}; V=plant{i:04}; {steps})" for i in range(80)]
    sandbox.run("sh", sandbox.write_outside(sandbox.home + "/run", "\n".join(lines) + "\n"), timeout=120)
    sandbox.shfs("sync")
    mounted.unmount()
    assert not found(sandbox.store)
