"""A server in a process of its own, as users start it."""

import contextlib
import http.client
import json
import re
import subprocess
import threading

from tests.cli.processes import ROOT, TURBOTAG, hear_signals


class Server:
    """A running `turbotag serve`; log: the lines of its standard error."""

    def __init__(self, *arguments):
        command = [*TURBOTAG, "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=hear_signals
        )
        self.log = []
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            if found := re.search(r"at http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise AssertionError(self.log)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"

    def send(self, method, path, body=None, headers=None):
        """(status, headers, body) of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def post(self, path, body):
        """(status, what the JSON of the answer has)."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, found = self.send("POST", path, data, {"content-type": "application/json"})
        return status, json.loads(found)

    def get(self, path):
        status, _, found = self.send("GET", path)
        return status, json.loads(found)

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.reader.join(10)
