# SPDX-License-Identifier: MIT
"""The server of `shfs web`, and its page in a browser."""

import http.client
import json
import os
import signal
import struct
import subprocess
import urllib.parse
import zlib

import pytest

import browser as browsers
from analysis import LINES, lay_out
from harness import PREFIX

COLOURS = [(200, 30, 30), (30, 120, 200)]

# all that the page has, by names and not by its numbers
ALL = """(() => {
    const { model } = shfsMap, { data } = model, name = (p) => p < 0 ? null : model.paths[p];
    const uses = (c) => model.uses(c).map((u) => [u.kind, name(u.path), u.read, u.made, name(u.from), u.flags]);
    return {
        commands: model.commands.map((c) => [c.id, c.text, c.begin, c.end, c.status, c.of.id, data.directories[c.cwd], c.note, c.tags, c.stale, uses(c)]),
        versions: data.versions.map(([p, n, ...v]) => [name(p), n, v[0], v[1], v[2], v[3], data.reasons[v[4]], name(v[5]), v[6]].join()).sort(),
        notes: data.notes.map(([p, ...note]) => JSON.stringify([name(p), ...note])).sort(),
        summary: document.getElementById('summary').textContent,
    };
})()"""


def png(width, height, rows):
    """An image of rows of (r, g, b)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    raw = b"".join(b"\0" + b"".join(bytes(pixel) for pixel in row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def stripe(pixels):
    """64 by 32 pixels, so many of them in another colour."""
    flat = [COLOURS[n < pixels] for n in range(64 * 32)]
    return png(64, 32, [flat[n:n + 64] for n in range(0, len(flat), 64)])


@pytest.fixture
def study(sandbox, mounted, shell):
    lay_out(sandbox)
    sandbox.write("plot1.png", stripe(100))
    sandbox.write("plot2.png", stripe(140))
    bash = shell()
    for line in (*LINES, "cat plot1.png > fig.png", "cat plot2.png > fig.png"):
        bash.run(line)
    return bash


class Served:
    def __init__(self, sandbox, *args):
        self.sandbox = sandbox
        argv = [os.path.join(PREFIX, "bin/shfs"), "web", "--no-browser", *args]
        self.process = sandbox.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url and "built without" in self.process.stderr.read():
            pytest.skip("built without the page of the map")
        parts = urllib.parse.urlsplit(self.url)
        self.port, self.token = parts.port, urllib.parse.parse_qs(parts.query)["token"][0]

    def ask(self, path, method="GET", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.bytes = answer.read()
        connection.close()
        return answer

    def get(self, path):
        return self.ask(path, Authorization=f"token {self.token}")

    def json(self, path):
        answer = self.get(path)
        assert answer.status == 200, answer.bytes
        return json.loads(answer.bytes)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60), self.process.communicate()[1]


@pytest.fixture
def served(study, sandbox):
    found = Served(sandbox, "--port", "0", sandbox.project)
    yield found
    status, said = found.end()
    assert status == 0, said


@pytest.fixture
def page(served, request):
    if not browsers.program():
        pytest.skip("there is no Chromium")
    found = browsers.Browser()
    found.served = served
    look(found, served.url)
    yield found
    if "SHFS_TEST_PICTURES" in os.environ:
        found.picture(os.path.join(os.environ["SHFS_TEST_PICTURES"], f"{request.node.name}.png"))
    found.close()


def nothing_bad(page):
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith((f"http://127.0.0.1:{page.served.port}/", "data:", "about:"))] == []


def known(page):
    """All that was done is in the index: the server waits for that only so long."""
    page.served.sandbox.shfs("history", "--limit", "1", check=False)


def look(page, url):
    page.go("about:blank")
    page.errors, page.requests = [], []
    page.go(url)
    page.wait("document.documentElement.dataset.whole === 'yes' || !document.getElementById('nothing').hidden")


def step(chance, sandbox, study):
    """Does something or other."""
    name = chance.choice(["a", "b", "sub/c", "sub/d"])
    other = chance.choice(["a", "b", "e"])
    study.run(chance.choice([
        f"echo {chance.random()} > {name}", f"echo {chance.random()} >> {name}", f"cat {other} > {name}", f"mv {name} {other}", f"rm -f {name}",
        f"sort {other} {name} | tee out.txt | head -1 > {name}2", f"cd {sandbox.project}/sub", f"cd {sandbox.project}", "false", f"(sleep 0.2; echo late > {name}) & echo {chance.random()}",
        f"ln -f {other} {name}3", f"echo '{chance.random()}' | tee {name} {other} > /dev/null",
    ]))  # fmt: skip
    if chance.random() < 0.3:
        last = json.loads(sandbox.shfs("history", "--json", "--limit", "1", "--all", sandbox.project).stdout)["commands"]
        made = [f"{f['path']}@{f['made']}" for c in last for f in c["files"] if f.get("made")]
        if last and last[0]["id"]:
            sandbox.shfs("note", "-t", chance.choice(["draft", "fig"]), chance.choice([last[0]["id"], *made]), "a note of", str(chance.random()))
