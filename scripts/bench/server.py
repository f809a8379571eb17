"""Load on the server: clients that ask all at once, bad input meanwhile, kills and restarts.

    python scripts/bench server load hostile restarts page

Server and clients run on this machine and share its cores; nothing leaves 127.0.0.1.
"""

from __future__ import annotations

import functools
import http.client
import json
import random
import re
import socket
import statistics
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import table
from measure import Page, Part, Setting, resident, together, turbotag

from corpora import DEMO

CLIENTS = 50
TEN_MEGABYTES = 10_000_000


class Server:
    """`turbotag serve`, until it is stopped."""

    def __init__(self, port: int = 0):
        command = turbotag("serve", "en", "--port", port)
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(r"at http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        threading.Thread(target=lambda: [*self.process.stderr], daemon=True).start()  # type: ignore

    def megabytes(self) -> float:
        return resident(self.process.pid)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100.0

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        connection = self.connect()
        try:
            connection.request("POST", path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@dataclass
class Tally:
    """What clients saw: milliseconds of each answer by what was asked, and statuses."""

    times: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    words: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str, status: int, milliseconds: float, words: int) -> None:
        with self.lock:
            self.times.setdefault(what, []).append(milliseconds)
            self.statuses[status] += 1
            self.words += words


@functools.cache
def texts() -> list[str]:
    """Paragraphs of one to five sentences of the embedded corpus."""
    data = (DEMO / "train.conllu").read_text(encoding="utf-8")
    sentences = re.findall(r"^# text = (.*)$", data, re.MULTILINE)
    rng = random.Random(1)
    return [" ".join(rng.sample(sentences, rng.randint(1, 5))) for _ in range(500)]


def client(server: Server, tally: Tally, until: float, seed: int) -> None:
    """Asks again as soon as it is answered, on one connection: texts annotated, one in eight with
    a picture; one request in ten is for an explanation."""
    rng, given, connection = random.Random(seed), texts(), server.connect()
    sentence = ""
    while time.monotonic() < until:
        what, body = "annotate", {"text": rng.choice(given), "draw": rng.random() < 0.125}
        if sentence and rng.random() < 0.1:
            what, body = "explain", {"conllu": sentence, "word": 1}
        began = time.perf_counter()
        connection.request("POST", f"/api/{what}", json.dumps(body))
        answer = connection.getresponse()
        found = json.loads(answer.read())
        took = 1000.0 * (time.perf_counter() - began)
        words = sum(len(s["tokens"]) for s in found.get("sentences", []))
        tally.add(what, answer.status, took, words)
        if what == "annotate" and answer.status == 200:
            sentence = found["sentences"][0]["conllu"]
    connection.close()


def percentile(numbers: list[float], share: float) -> float:
    return statistics.quantiles(numbers, n=1000, method="inclusive")[round(1000 * share) - 1]


def load(setting: Setting) -> str:
    """Throughput, latency and memory with many clients at once, and with one."""
    seconds = setting.pick(10.0, 120.0)
    rows = []
    for clients, span in ((1, seconds / 6), (CLIENTS, seconds)):
        server, tally = Server(), Tally()
        memory = [server.megabytes()]
        until, cpu = time.monotonic() + span, server.cpu_seconds()
        watch = threading.Thread(target=_watch, args=(server, memory, until, span / 10))
        watch.start()
        together(lambda i: client(server, tally, until, i), clients)  # noqa: B023
        watch.join()
        used, code = server.cpu_seconds() - cpu, server.stop()
        assert (code, list(tally.statuses)) == (143, [200]), (code, tally.statuses)
        for what, times in sorted(tally.times.items()):
            rows.append(
                [
                    clients,
                    what,
                    f"{len(times):,}",
                    f"{len(times) / span:.0f}",
                    *(f"{percentile(times, q):.0f}" for q in (0.5, 0.9, 0.99)),
                    f"{max(times):.0f}",
                ]
            )
        told = (
            f"{clients} client{'s' * (clients > 1)}, {span:.0f} s: {tally.words / span:,.0f} words "
            f"a second; the server had {used / span:.2f} of the machine's CPUs, and gave "
            f"{tally.statuses[200] / used:.0f} answers, {tally.words / used:,.0f} words, for each "
            f"CPU second: {1000 * used / tally.statuses[200]:.1f} CPU ms an answer. "
            "Its memory, MB, at the start and each tenth of the time: "
            + ", ".join(f"{m:.0f}" for m in memory)
            + "."
        )
        rows.append([told])
    header = ["clients", "asked", "answers", "a second", "ms, median", "90 %", "99 %", "longest"]
    notes = "\n\n".join(row[0] for row in rows if len(row) == 1)
    return table(header, [row for row in rows if len(row) > 1]) + "\n\n" + notes


def _watch(server: Server, memory: list[float], until: float, step: float) -> None:
    while time.monotonic() < until:
        time.sleep(min(step, max(0.0, until - time.monotonic())))
        memory.append(server.megabytes())


def hostile(setting: Setting) -> str:
    """Requests that no client should send, and what is answered; the server goes on."""
    server = Server()
    long = json.dumps({"text": "Ada sings to the old moon. " * 36_000}).encode()
    cases: list[tuple[str, str, bytes]] = [
        ("random bytes", "/api/annotate", random.Random(1).randbytes(5000)),
        ("half of a JSON object", "/api/annotate", b'{"text": "Ada'),
        ("100,000 open brackets", "/api/annotate", b"[" * 100_000),
        ("10 MB of text", "/api/annotate", b'{"text": "' + b"a " * (TEN_MEGABYTES // 2) + b'"}'),
        ("a word of 900,000 letters", "/api/annotate", b'{"text": "' + b"a" * 900_000 + b'"}'),
        ("972 kB of sentences", "/api/annotate", long),
        ("a model that is not served", "/api/annotate", b'{"text": "a", "model": "../en"}'),
        (
            "a word that is not there",
            "/api/explain",
            b'{"conllu": "1\\tA' + b"\\t_" * 8 + b'\\n", "word": 9}',
        ),
        ("trees that are none", "/api/explain", b'{"conllu": "1 2 3", "word": 1}'),
    ]
    rows = []
    for what, path, body in cases:
        began = time.perf_counter()
        try:
            status, found = server.post(path, body)
        except (BrokenPipeError, ConnectionResetError):  # it did not wait for all of it
            status, found = 413, {"error": "(closed while it was sent)"}
        told = found.get("error") or f"{len(found['sentences']):,} sentences"
        rows.append([what, status, told.replace("|", "\\|"), f"{time.perf_counter() - began:.2f}"])
    head = b"POST /api/annotate HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n\r\n"
    whole, closed = head + b'{"text": "Ada sings now."}', 0
    for i in range(setting.pick(50, 500)):
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(whole[: 20 + i % len(whole)])
            closed += 1
    began = time.perf_counter()
    status, found = server.post("/api/annotate", b'{"text": "Ada sings."}')
    rows.append(
        [
            f"{closed} connections closed in the middle, then a good request",
            status,
            f"{len(found['sentences'])} sentence",
            f"{time.perf_counter() - began:.2f}",
        ]
    )
    rows.append(_slow(server, setting.pick(20, 300)))
    memory, code = server.megabytes(), server.stop()
    assert code == 143
    rest = f"\n\nThe server had {memory:.0f} MB at the end, and ended with code {code} on SIGTERM."
    return table(["sent", "status", "answer", "seconds"], rows) + rest


def _slow(server: Server, n: int) -> list[object]:
    """Clients that send half of their headers and wait; meanwhile another one is answered."""
    began = time.perf_counter()
    waiting = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(n)]
    for each in waiting:
        each.sendall(b"POST /api/annotate HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    status, _ = server.post("/api/annotate", b'{"text": "Ada sings."}')
    assert status == 200
    answers = [each.recv(4096) for each in waiting]
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers)
    for each in waiting:
        each.close()
    what = f"half of the headers by {n} clients who wait; another one is answered meanwhile"
    told = answers[0].rsplit(b"\n\r\n", 1)[-1].decode().strip()
    return [what, 408, told, f"{time.perf_counter() - began:.2f}"]


def restarts(setting: Setting) -> str:
    """Killed while clients ask, and started again at the same port."""
    times, port = [], 0
    for _ in range(setting.pick(2, 5)):
        began = time.perf_counter()
        server = Server(port)
        port = server.port
        status, _ = server.post("/api/annotate", b'{"text": "Ada sings."}')
        assert status == 200
        times.append(time.perf_counter() - began)
        tally = Tally()

        def ask(i: int, server: Server = server, tally: Tally = tally) -> None:
            try:
                client(server, tally, time.monotonic() + 3.0, i)
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                tally.add("lost", 0, 0.0, 0)

        killer = threading.Timer(1.5, server.process.kill)
        killer.start()
        together(ask, 10)
        killer.join()
        server.process.wait(30)
        assert len(tally.times["lost"]) == 10
    shown = ", ".join(f"{t:.1f}" for t in times)
    return (
        f"Killed (SIGKILL) {len(times)} times while ten clients asked, and started again at the "
        f"same port: seconds from start to the first answer {shown}. There is nothing to repair: "
        "the server writes no files."
    )


PAGE = Page(
    "The server, measured",
    "server",
    "server",
    "bench/server.py",
    {
        "load": Part("Many clients", load),
        "hostile": Part("Bad input", hostile),
        "restarts": Part("Kills and restarts", restarts),
    },
)
