# SPDX-License-Identifier: MIT
"""Remotes in buckets: what networks and object stores do at times, who asks, and what a URL says."""

import json
import os
import random
import ssl
import subprocess

import pytest

import s3
import s3proxy
from harness import seeds
from remotes import S3
from test_archive import everything
from test_forget import shfs
from test_remotes import clone_of, in_store, pull, push
from test_trees import record

assert shfs  # a fixture
pytestmark = pytest.mark.users("ordinary")


@pytest.fixture
def bucket(sandbox):
    it = S3(sandbox)
    yield it
    it.close()


@pytest.fixture
def proxy(bucket):
    """The remote's URL goes by it."""
    it = s3proxy.Proxy(bucket.host)
    bucket.url = bucket.url_of(it.host)
    yield it
    it.close()


@pytest.fixture
def pushed(sandbox, shfs, bucket, proxy):
    """A store that has pushed, and has recorded more since."""
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", bucket.url)
    push(shfs)
    record(sandbox, "echo two > a", "head -c 300000 /dev/urandom > random", "head -c 5000000 /dev/urandom > large")
    proxy.asked.clear()
    return bucket


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_a_bad_day(pushed, sandbox, shfs, proxy, seed):
    """A third of all requests end badly; what is pushed, pulled and cloned is all there."""
    chance = random.Random(seed)
    ends = [s3proxy.say(500, "InternalError"), s3proxy.say(503, "SlowDown"), s3proxy.say(503, body=b"<html>busy"), s3proxy.say(429),
            s3proxy.say(409, "ConditionalRequestConflict"), s3proxy.say(400, "RequestTimeout"), s3proxy.drop, s3proxy.drop_after, s3proxy.cut_answer]  # fmt: skip

    def rule(asked):
        if chance.random() > 1 / 3:
            return None
        if asked.is_put() and chance.random() < 0.3:
            return s3proxy.cut_request
        return chance.choice(ends)

    proxy.rule = rule
    assert push(shfs)["generation"] == 2
    there = in_store(sandbox, f"{sandbox.home}/other")
    there("remote", "add", "r", pushed.url)
    pull(there)
    assert json.loads(shfs("remote", "check", "--read-data", "--json").stdout)["unneeded"] == 0
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", "--name", "r", pushed.url)
    assert everything(new, sandbox) == everything(shfs, sandbox)
    for store in new, there:
        assert store("check", "--read-data").stdout.endswith("no flaws\n")
        assert store("cat", f"{sandbox.project}/large@1").stdout_bytes == shfs("cat", f"{sandbox.project}/large@1").stdout_bytes
    assert not [a for a in proxy.asked if a.is_put() and a.headers["If-None-Match"] != "*"]


def test_a_put_that_is_not_heard(pushed, sandbox, shfs, proxy):
    """Each put is done, and its answer lost: the next try finds its own bytes, and is no other copy's."""
    done = set()

    def rule(asked):
        if asked.is_put() and asked.path not in done:
            done.add(asked.path)
            return s3proxy.drop_after
        return None

    proxy.rule = rule
    assert push(shfs)["generation"] == 2
    assert len(done) > 4
    assert clone_of(sandbox, pushed)


def test_a_put_that_is_cut_short(pushed, sandbox, shfs, proxy):
    """What has a name is complete."""
    before = pushed.files()
    proxy.rule = lambda asked: s3proxy.cut_request if asked.is_put() else None
    assert shfs("push", check=1).stderr
    assert pushed.files() == before
    assert len([a for a in proxy.asked if a.is_put()]) in (10, 11)  # libcurl has tries of its own
    proxy.rule = lambda asked: None
    assert push(shfs)["generation"] == 2
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.parametrize(("act", "text", "count"), [
    (s3proxy.say(503, "SlowDown"), "503 SlowDown", 10),
    (s3proxy.drop, "mpty reply", 10),
    (s3proxy.say(403, "RequestTimeTooSkewed"), "clock", 1),
    (s3proxy.say(403, "AccessDenied"), "keys may not", 1),
    (s3proxy.say(400, "ExpiredToken"), "token has expired", 1),
    (s3proxy.say(301, "PermanentRedirect"), "region", 1),
    (s3proxy.say(507), "o space left", 1),
    (s3proxy.say(404, body=b"x" * (1 << 20)), "longer than", 1),
    (s3proxy.say(418, "Teapot", "\x9b31m\u202eshort and stout"), "418 Teapot", 1),
])  # fmt: skip
def test_what_lasts(pushed, shfs, proxy, act, text, count):
    proxy.rule = lambda asked: act
    said = shfs("push", check=1).stderr
    assert text in said and len(proxy.asked) == count and "\x9b" not in said and "\u202e" not in said
    assert s3.SECRET not in said


PAGE = ("<ListBucketResult><IsTruncated>{}</IsTruncated>{}<Contents><Key>{}</Key><Size>1</Size></Contents></ListBucketResult>")


def test_answers_of_a_stranger(pushed, sandbox, shfs, proxy):
    """Of a listing, or of a blob: each is an error, at once, and takes neither memory nor what is here."""
    bomb = "<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaaaaaaaaaaaa'>" + "".join(
        f"<!ENTITY a{n} '{f'&a{n - 1 if n else str()};' * 10}'>" for n in range(9)) + "]><ListBucketResult><Name>&a8;</Name></ListBucketResult>"
    listings = ["", "<html>Welcome</html>", "<ListBucketResult>", "<a/>", bomb, "<a>" * 1000, f"<{'a' * 100000}/>", "\0",
                PAGE.format("false", "", "somebody/else"), PAGE.format("true", "<NextContinuationToken>x</NextContinuationToken>", f"{pushed.prefix}/heads/x"),
                PAGE.format("true", "", ""), PAGE.format("false", "", f"{pushed.prefix}/heads/%zz"), "<ListBucketResult><Name>" + "x" * 100000,
                "x" * (17 << 20)]  # fmt: skip
    for listing in listings:
        proxy.asked.clear()
        proxy.rule = lambda asked, body=listing.encode(): s3proxy.say(200, body=body) if "list-type" in asked.query else None
        assert shfs("push", check=1).stderr.count("Sanitizer") == 0, listing[:80]
        assert len(proxy.asked) < 5, listing[:80]
    proxy.rule = lambda asked: s3proxy.flood if "/data/" in asked.path and asked.method == "GET" else None
    assert "is damaged there" in in_store(sandbox, f"{sandbox.home}/new")("clone", pushed.url, check=1).stderr
    proxy.rule = lambda asked: None
    assert push(shfs)["generation"] == 2


def test_more_names_than_a_page_has(pushed, shfs, proxy):
    """And a listing that goes on when its token is not taken any more."""
    push(shfs)
    store = next(name for name in pushed.blobs()).split("/")[1]
    for n in range(2300):
        pushed.write(f"data/{store}/{n % 256:02x}/{n % 256:02x}{n:062x}", b"")
    said = json.loads(shfs("remote", "check", "--json").stdout)
    assert said["unneeded"] == 2300 and said["ok"]
    assert len([a for a in proxy.asked if "continuation-token" in a.query]) == 2
    proxy.asked.clear()
    proxy.rule = lambda asked: s3proxy.say(400, "InvalidArgument") if "continuation-token" in asked.query else None
    assert json.loads(shfs("remote", "check", "--json").stdout) == said
    assert len([a for a in proxy.asked if "start-after" in a.query]) == 2


def test_a_server_that_replaces(pushed, sandbox, shfs, proxy):
    """It does not know If-None-Match: nothing is put there."""
    before = pushed.files()
    act = s3proxy.as_if_unasked(pushed.client)
    proxy.rule = lambda asked: act if asked.is_put() else None
    assert "replaces objects" in shfs("push", check=1).stderr
    assert pushed.files() == before
    elsewhere = pushed.url_of(proxy.host, f"{pushed.prefix}/new")
    assert "replaces objects" in shfs("remote", "add", "s", elsewhere, check=1).stderr
    assert [r["name"] for r in json.loads(shfs("remote", "list", "--json").stdout)["remotes"]] == ["r"]
    proxy.rule = lambda asked: s3proxy.say(501, "NotImplemented") if asked.is_put() else None
    assert "replaces objects" in shfs("push", check=1).stderr


# --- who asks ---


def test_who_asks(bucket, sandbox, shfs):
    """Keys of the environment, then of a profile; and errors that say what is wrong, and no secret."""
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", bucket.url)
    push(shfs)
    for key, secret, text in ((s3.KEY, "wrong", "secret key is not"), ("NOBODY", s3.SECRET, "does not know the access key")):
        said = shfs("push", env={"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}, check=1).stderr
        assert text in said and s3.SECRET not in said and "wrong" not in said.replace("what is wrong", "")
    assert "no bucket of this name" in shfs("remote", "add", "s", f"s3://nobody-s?endpoint=http://{bucket.host}", check=1).stderr
    assert "refused" in shfs("remote", "add", "s", "s3://shfs/x?endpoint=http://127.0.0.1:1", check=1).stderr
    assert "SSL" in shfs("remote", "add", "s", f"s3://shfs/x?endpoint=https://{bucket.host}", check=1).stderr
    for name in "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY":
        del sandbox.env[name]
    assert "AWS_ACCESS_KEY_ID" in shfs("push", check=1).stderr
    sandbox.mkdir(f"{sandbox.home}/.aws")
    keys = f"aws_access_key_id = {s3.KEY}\n aws_secret_access_key = indented\naws_secret_access_key={s3.SECRET}\n"
    sandbox.write_outside(f"{sandbox.home}/.aws/credentials", f"# keys\n[default]\naws_access_key_id = x\n[ lab ]\r\n{keys}[other]\n{keys.replace(s3.SECRET, 'bad')}")
    assert "no keys" in shfs("push", check=1).stderr
    push(shfs, env={"AWS_PROFILE": "lab"})
    assert "secret key is not" in shfs("push", env={"AWS_PROFILE": "other"}, check=1).stderr
    sandbox.write_outside(f"{sandbox.home}/.aws/config", f"[profile here]\n{keys}endpoint_url = http://{bucket.host}/\nregion = us-east-1\ns3 =\n  x = y\n")
    assert push(shfs, env={"AWS_PROFILE": "here"})["generation"] == 1
    without = bucket.url.split("?")[0]
    shfs("remote", "add", "s", without, env={"AWS_PROFILE": "here"})
    for variable in "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3":
        assert "refused" in shfs("push", "s", env={"AWS_PROFILE": "here", "AWS_ENDPOINT_URL": "http://127.0.0.1:2", variable: "http://127.0.0.1:1"}, check=1).stderr
    elsewhere = sandbox.write_outside(f"{sandbox.home}/keys", f"[default]\n{keys}")
    push(shfs, "r", env={"AWS_SHARED_CREDENTIALS_FILE": elsewhere})
    # none of it is in the store
    for top, _, names in os.walk(sandbox.store):
        for name in names:
            with open(f"{top}/{name}", "rb") as file:
                assert s3.SECRET.encode() not in file.read(), name


def test_what_is_asked(bucket, sandbox, shfs, proxy):
    """Where a request goes, and what it has: token, region, path style."""
    token, seen = "T" * 3000 + "/+=", []
    proxy.rule = lambda asked: seen.append(asked) or s3proxy.say(403, "AccessDenied")
    sandbox.mkdir(f"{sandbox.home}/.aws")
    sandbox.write_outside(f"{sandbox.home}/.aws/credentials", f"[default]\naws_access_key_id=k\naws_secret_access_key=s\naws_session_token={token}\n")
    env = {"AWS_ACCESS_KEY_ID": "", "AWS_DEFAULT_REGION": "eu-north-1"}
    said = shfs("remote", "add", "r", bucket.url, env=env, check=1).stderr
    assert seen[-1].headers["x-amz-security-token"] == token and "TTT" not in said
    assert "/eu-north-1/s3/aws4_request" in seen[-1].headers["Authorization"] and "x-amz-security-token" in seen[-1].headers["Authorization"]
    shfs("remote", "add", "r", f"{bucket.url}&region=mars", env=env, check=1)
    assert "/mars/s3/" in seen[-1].headers["Authorization"] and seen[-1].path.startswith("/shfs/tests/")
    port = proxy.host.split(":")[1]
    shfs("remote", "add", "r", f"s3://shfs/a/b?path-style=no&endpoint=http%3A%2F%2Flocalhost:{port}", env=env, check=1)
    assert seen[-1].headers["Host"] == f"shfs.localhost:{port}" and seen[-1].path == "/a/b/shfs-remote"
    # and such a signature is right
    url = f"s3://shfs/{bucket.prefix}?endpoint=http://localhost:{bucket.host.split(':')[1]}&path-style=false"
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", url)
    assert push(shfs)["generation"] == 1 and bucket.blobs()


def test_a_certificate(bucket, sandbox, shfs):
    """One that nobody knows is refused; AWS_CA_BUNDLE names who does."""
    at = sandbox.mkdir(f"{sandbox.home}/tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{at}/key", "-out", f"{at}/cert", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)  # fmt: skip
    os.chmod(f"{at}/cert", 0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{at}/cert", f"{at}/key")
    proxy = s3proxy.Proxy(bucket.host, context)
    try:
        url = bucket.url_of(proxy.host).replace("http:", "https:")
        record(sandbox, "echo one > a")
        assert "certificate" in shfs("remote", "add", "r", url, check=1).stderr and not proxy.asked
        sandbox.env["AWS_CA_BUNDLE"] = f"{at}/cert"
        shfs("remote", "add", "r", url)
        assert push(shfs)["generation"] == 1
    finally:
        proxy.close()


@pytest.mark.parametrize(("lib", "package"), [("libcurl.so.4", "libcurl4"), ("libexpat.so.1", "libexpat1")])
def test_without_a_library(bucket, sandbox, shfs, lib, package):
    """The message names its package, and all else works."""
    path = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    path = os.path.realpath(next(line.split("=> ")[1] for line in path.splitlines() if line.strip().startswith(f"{lib} ")))
    hide = "bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", path, "shfs"
    record(sandbox, "echo one > a")
    said = sandbox.run(*hide, "remote", "add", "r", bucket.url, cwd="/", check=1).stderr
    assert lib in said and f"the package {package}" in said and not bucket.files()
    sandbox.run(*hide, "remote", "add", "r", f"{sandbox.home}/directory", cwd="/")
    sandbox.run(*hide, "push", cwd="/")


def test_urls(sandbox, shfs):
    secret = "s3cr3t-of-somebody"
    for url in ("s3://", "s3:///x", "s3://-x", "s3://.x", "s3://x/../y", "s3://x/.", "s3://x/a b", "s3://x/%41", f"s3://key:{secret}@x/y", f"s3://x?secret={secret}",
                "s3://x?endpoint", "s3://x?endpoint=", "s3://x?endpoint=ftp://h", f"s3://x?endpoint=http://key:{secret}@h", "s3://x?endpoint=http://h/x",
                "s3://x?path-style=maybe", "s3://x?region=", "s3://x?region=%2", "s3://x?region=%00", "s3://x?region=a:b", f"s3://{'x' * 300}"):  # fmt: skip
        said = shfs("remote", "add", "r", url, check=2).stderr
        assert "no URL of a remote" in said and secret not in said, url
        assert secret not in shfs("clone", url, check=2).stderr
    for url in "s3://x", "s3://x/", "s3://x/y//z/?region=a&path-style=1", "s3://A_b.c/x?endpoint=h:1", "s3://x?endpoint=https://[::1]:9/":
        assert "no keys" in shfs("remote", "add", "r", url, check=1).stderr, url
