# SPDX-License-Identifier: MIT
"""An object store for tests, and a client of it that shares nothing with shfs."""

import fcntl
import functools
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
import time
import urllib.parse

import pytest

import s3server
from harness import Helper, wait_until
from s3server import BUCKET, KEY, SECRET

NOBODY = 65534


@functools.cache
def server():
    """Where the server is, which all workers share. It ends with the run of the tests."""
    top = os.environ["SHFS_TEST_DIR"]
    at = f"{top}/s3"
    with open(f"{top}/s3.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f"{at}/ready"):
            start_server(at, f"{top}/pid")
        with open(f"{at}/ready", encoding="ascii") as ready:
            return ready.read()


def start_server(at, pid):
    shutil.rmtree(at, ignore_errors=True)
    os.mkdir(at)
    program = shutil.copy(s3server.__file__, f"{at}/s3server.py")
    if os.geteuid() == 0:
        os.chown(at, NOBODY, NOBODY)
    with open(pid, encoding="ascii") as file:
        argv = [sys.executable, program, at, file.read().strip()]
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": at}
    with open(f"{at}/output", "wb") as output:
        os.chmod(f"{at}/output", 0o666)
        process = subprocess.Popen(argv, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **who)
    Helper.pids.add(process.pid)  # it stays when the case ends
    wait_until(lambda: process.poll() is not None or os.path.exists(f"{at}/ready"), "the object store", 60)
    if process.poll() is not None:
        with open(f"{at}/output", encoding="utf-8", errors="replace") as output:
            pytest.fail(f"the object store does not start: {output.read()[-2000:]}")
    with open(f"{at}/ready", encoding="ascii") as ready:
        assert Client(ready.read()).ask("PUT", f"/{BUCKET}").status == 200


class Client:
    """By docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html."""

    def __init__(self, host, key=KEY, secret=SECRET):
        self.host, self.key, self.secret = host, key, secret
        self.connection = http.client.HTTPConnection(host, timeout=60)

    def ask(self, method, path, query=None, body=b"", **headers):
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        query = urllib.parse.urlencode(sorted((query or {}).items()), quote_via=urllib.parse.quote, safe="")
        headers |= {"host": self.host, "x-amz-date": now, "x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        whole = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{headers['x-amz-content-sha256']}"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(whole.encode()).hexdigest()}"
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={hmac.new(key, text.encode(), 'sha256').hexdigest()}"
        )
        self.connection.request(method, f"{path}?{query}" if query else path, body or None, headers)
        reply = self.connection.getresponse()
        reply.text = reply.read()
        return reply
