# SPDX-License-Identifier: MIT
"""What stands between shfs and an object store, and does what networks and servers do at times."""

import contextlib
import http.client
import http.server
import socket
import threading
import urllib.parse


class Asked:
    """A request as it came."""

    def __init__(self, handler):
        self.method, self.headers = handler.command, handler.headers
        url = urllib.parse.urlsplit(handler.path)
        self.path, self.query = url.path, dict(urllib.parse.parse_qsl(url.query))
        self.whole = handler.path
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))

    def is_put(self):
        return self.method == "PUT"


# --- what can be done with a request; None of a rule: it is passed on ---


def say(status, code="", text="", body=None):
    """Answers by itself."""

    def act(handler, asked):
        xml = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()
        handler.answer(status, {}, xml if body is None else body)

    return act


def drop(handler, asked):
    """The connection is closed before anybody has heard the request."""
    handler.hang_up()


def drop_after(handler, asked):
    """The request is done, and nobody hears the answer."""
    handler.pass_on(asked)
    handler.hang_up()


def cut_request(handler, asked):
    """The server gets half of the body, and then the connection is lost."""
    with socket.create_connection(handler.server.to) as there:
        lines = [f"{asked.method} {asked.whole} HTTP/1.1", *(f"{k}: {v}" for k, v in asked.headers.items() if k.lower() != "expect"), "", ""]
        there.sendall("\r\n".join(lines).encode() + asked.body[: len(asked.body) // 2])
        there.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while there.recv(65536):
                pass
    handler.hang_up()


def cut_answer(handler, asked):
    """Half of the answer comes."""
    reply, body = handler.pass_on(asked)
    handler.answer(reply.status, dict(reply.getheaders()), body, send=len(body) // 2)
    handler.hang_up()


def flood(handler, asked):
    """More comes than was asked for."""
    reply, body = handler.pass_on(asked)
    handler.answer(200 if reply.status == 206 else reply.status, {}, body + b"x" * (1 << 20))


def as_if_unasked(client):
    """A server that does not know If-None-Match."""

    def act(handler, asked):
        reply = client.ask(asked.method, asked.path, body=asked.body)
        handler.answer(reply.status, {}, reply.text)

    return act


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        asked = Asked(self)
        with self.server.lock:
            self.server.asked.append(asked)
            act = self.server.rule(asked)
        if act:
            act(self, asked)
        else:
            reply, body = self.pass_on(asked)
            self.answer(reply.status, dict(reply.getheaders()), body)

    do_GET = do_HEAD = do_PUT = do_DELETE = do

    def pass_on(self, asked):
        connection = http.client.HTTPConnection(*self.server.to, timeout=60)
        headers = {k: v for k, v in asked.headers.items() if k.lower() not in ("expect", "connection")}
        connection.request(asked.method, asked.whole, asked.body if asked.is_put() else None, headers)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, body

    def answer(self, status, headers, body, send=None):
        self.send_response_only(status)
        kept = {k: v for k, v in headers.items() if k.lower() not in ("transfer-encoding", "connection", "content-length")}
        length = headers.get("Content-Length", headers.get("content-length")) if self.command == "HEAD" else None
        for name, value in kept.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(body[:send])

    def hang_up(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Proxy(http.server.ThreadingHTTPServer):
    """rule(asked) says what becomes of each request; asked: all that have come."""

    daemon_threads = True

    def __init__(self, to, context=None):
        super().__init__(("127.0.0.1", 0), Handler)
        host, port = to.split(":")
        self.to, self.asked, self.lock = (host, int(port)), [], threading.Lock()
        self.rule = lambda asked: None
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that was killed

    def close(self):
        self.shutdown()
        self.server_close()
