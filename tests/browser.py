"""A headless Chromium, driven through chromedriver by the W3C WebDriver protocol: no package."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
BINARY = next(filter(None, map(shutil.which, NAMES)), None)
DRIVER = shutil.which("chromedriver")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A window; to be closed."""

    def __init__(self, width=1300, height=900, dark=False):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.root = f"http://127.0.0.1:{port}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([DRIVER, f"--port={port}"], **quiet)
        flags = [*FLAGS, *(["--force-dark-mode"] if dark else [])]
        wanted = {
            "goog:chromeOptions": {"binary": BINARY, "args": flags},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }
        self.session = ""
        for _ in range(100):
            try:
                found = self._send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        self.session = f"/session/{found['sessionId']}"
        self.resize(width, height)

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, method=method)
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(json.load(e)["value"]["message"].split("\n")[0]) from None

    def call(self, verb, path, body=None):
        return self._send(verb, self.session + path, body)

    def resize(self, width, height):
        """The size of the page itself, which may be narrower than any window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", size)

    def devtools(self, command, parameters):
        body = {"cmd": command, "params": parameters}
        return self.call("POST", "/goog/cdp/execute", body)

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What a script of the page returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def later(self, script):
        """What a script hands to done()."""
        body = {"script": f"const done = arguments[0];\n{script}", "args": []}
        return self.call("POST", "/execute/async", body)

    def wait(self, script, seconds=20):
        """Until a script returns what is true: that."""
        end = time.monotonic() + seconds
        while not (found := self.run(f"return {script}")):
            assert time.monotonic() < end, (
                f"never: {script}\n{self.run('return document.body.innerText')}"
            )
            time.sleep(0.05)
        return found

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        """As a person does: where nothing covers the element."""
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def text(self, selector):
        return self.call("GET", f"/element/{self.find(selector)}/text")

    def picture(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def requests(self):
        """All addresses that were asked for so far."""
        logged = self.call("POST", "/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in logged]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [e["request"]["url"] for e in sent]

    def console(self):
        """Errors and warnings of the page."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def close(self):
        try:
            if self.session:
                self._send("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(20)
