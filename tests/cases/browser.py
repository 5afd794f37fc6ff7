# SPDX-License-Identifier: MIT
"""A headless Chromium, asked over a pipe in its own words (the DevTools protocol)."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chrome-headless-shell", "google-chrome")
TIMEOUT = 60

KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """Pages, of which one is asked at a time. What went wrong in it is in errors, what it asked the network for in requests."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="shfs-browser.")
        to_read, self.to = os.pipe()
        self.come, from_write = os.pipe()

        def pipes():
            # copies first: one may be where another one goes
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.home}", "about:blank"],
            close_fds=False, preexec_fn=pipes, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"HOME": self.home, "PATH": os.environ["PATH"], "TZ": "UTC"})
        os.close(to_read)
        os.close(from_write)
        self.left, self.number, self.session = b"", 0, None
        self.errors, self.requests, self.loaded = [], [], 0
        self.tab()

    def tab(self):
        """Opens another page, which is asked from now on; returns what self.session is to be to ask it again."""
        self.session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.resize(1440, 900)
        return self.session

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # its children write to its home, too
        self.process.wait()
        os.close(self.to)
        os.close(self.come)
        shutil.rmtree(self.home, ignore_errors=True)

    # --- the protocol ---

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            found = self.receive()
            if found.get("id") == self.number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]

    def receive(self):
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self.left:
            assert select.select([self.come], [], [], max(deadline - time.monotonic(), 0))[0], "the browser is silent"
            data = os.read(self.come, 1 << 20)
            assert data, "the browser has ended"
            self.left += data
        message, self.left = self.left.split(b"\0", 1)
        found = json.loads(message)
        self.notice(found.get("method"), found.get("params"))
        return found

    def notice(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(params["args"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(params)
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded += 1

    # --- what a person does ---

    def go(self, url):
        before = self.loaded
        self.ask("Page.navigate", url=url)
        while self.loaded == before:
            self.receive()

    def open(self, path, fragment=""):
        if fragment:  # else it would go there in the page that it has
            self.go("about:blank")
        self.errors, self.requests = [], []
        self.go(f"file://{path}{fragment}")
        self.wait("document.documentElement.dataset.ready === 'yes' || !document.getElementById('nothing').hidden")

    def run(self, script):
        """The value of an expression, or of a promise."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script):
        deadline = time.monotonic() + TIMEOUT
        while not self.run(script):
            assert time.monotonic() < deadline, f"never: {script}"
            time.sleep(0.05)
        self.settle()

    def settle(self):
        """All that was to be drawn is drawn."""
        self.run("new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 150))")

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click_at(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", buttons=1, clickCount=1)
        self.settle()

    def click(self, selector, text=""):
        """The first element that is seen and says text."""
        at = self.run(f"""(() => {{
            const found = [...document.querySelectorAll({json.dumps(selector)})]
                .find((e) => e.textContent.includes({json.dumps(text)}) && e.getClientRects().length);
            if (!found) return null;
            found.scrollIntoView({{block: 'center'}});
            const box = found.getBoundingClientRect();
            return [box.x + Math.min(box.width / 2, 60), box.y + box.height / 2];
        }})()""")
        assert at, f"no {selector} that says {text!r}"
        self.click_at(*at)

    def wheel(self, x, y, delta):
        self.mouse("mouseMoved", x, y)
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.settle()

    def drag(self, x, y, by):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + by * step / 5, y, button="left", buttons=1)
        self.mouse("mouseReleased", x + by, y, button="left", clickCount=1)
        self.settle()

    def key(self, name):
        text = {"text": name} if len(name) == 1 else {"text": "\r"} if name == "Enter" else {}
        code = KEYS.get(name, 0)
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)
        self.settle()

    def type(self, text):
        self.ask("Input.insertText", text=text)
        self.settle()

    def text(self, selector="body"):
        """What is seen of it."""
        return self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                        " return e && e.getClientRects().length ? e.innerText : ''; })()")

    def dark(self, dark=True):
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[feature])
        self.settle()

    def resize(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
