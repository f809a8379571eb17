"""The server as programs use it: its JSON, UDPipe's verbs, limits, bad input, how it ends."""

import asyncio
import contextlib
import email.mime.multipart
import email.mime.nonmultipart
import email.policy
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import turbotag
from tests.cli.processes import DEMO, TURBOTAG, one_sentence, run_new
from tests.integrations.serving import Server
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes
from turbotag.integrations.service import pieces

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")
from turbotag.integrations import connections  # noqa: E402
from turbotag.integrations.server import _bind  # noqa: E402

TEXT = "Ada flew to Oslo. She didn't like it."


@pytest.fixture(scope="module")
def server():
    made = Server("en", "sl-parse", "--max-size", 100_000)
    yield made
    made.close()


@pytest.fixture
def small():
    made = Server("en-pos", "--threads", 1, "--waiting", 1, "--timeout", 0.2)
    yield made
    made.close()


# ---- The JSON interface --------------------------------------------------------------------------


def test_annotate(server):
    status, found = server.post("/api/annotate", {"text": TEXT, "draw": True})
    assert status == 200
    doc = turbotag.load("en")(TEXT, probabilities=True)
    assert found["model"] == "en"
    assert [s["text"] for s in found["sentences"]] == [s.text for s in doc.sentences]
    for sentence, expected in zip(found["sentences"], doc.sentences, strict=True):
        assert sentence["svg"].startswith("<svg")
        assert len(re.findall('data-word="1"', sentence["svg"])) == 3  # word, tag, arc
        for token, other in zip(sentence["tokens"], expected, strict=True):
            for name in ("id", "text", "upos", "xpos", "head", "label", "ner"):
                assert token[name] == getattr(other, name)
            assert token["probabilities"]["head"] == pytest.approx(
                other.probabilities["head"], abs=1e-3
            )
    assert found["sentences"][1]["multiwords"] == [{"first": 2, "last": 3, "text": "didn't"}]
    status, bare = server.post("/api/annotate", {"text": TEXT})
    assert "svg" not in bare["sentences"][0]
    assert server.post("/api/annotate", {"text": ""})[1]["sentences"] == []
    conllu = "".join(s["conllu"] for s in found["sentences"])
    _, again = server.post("/api/annotate", {"text": conllu, "format": "conllu"})
    assert [len(s["tokens"]) for s in again["sentences"]] == [5, 6]


def test_long_texts_are_cut_into_pieces_and_put_together(server):
    _, found = server.post("/api/annotate", {"text": "Ada sings. " * 95, "draw": True})
    assert len(found["sentences"]) == 95
    assert {s["text"] for s in found["sentences"]} == {"Ada sings."}
    assert {len(s["tokens"]) for s in found["sentences"]} == {3}


def test_explain(server):
    _, found = server.post("/api/annotate", {"text": TEXT})
    conllu = found["sentences"][0]["conllu"]
    status, why = server.post("/api/explain", {"conllu": conllu, "word": 4, "top": 3})
    assert status == 200
    by = {e["of"]: e for e in why["explanations"]}
    assert {"upos", "xpos", "head", "label", "ner"} <= by.keys()
    for e in by.values():
        assert len(e["features"]) <= 3
        total = sum(f["weight"] for f in e["features"]) + e["rest"]["weight"]
        assert total == pytest.approx(e["difference"])
    _, other = server.post("/api/explain", {"conllu": conllu, "word": 4, "against": 3})
    assert [e["other"] for e in other["explanations"]] == ["3"]


def test_models_health_and_description(server):
    _, found = server.get("/api/models")
    assert [m["name"] for m in found["models"]] == ["en", "sl-parse"]
    assert {"upos", "head", "ner"} <= set(found["models"][0]["gives"])
    assert server.get("/api/health")[1]["version"] == turbotag.__version__
    _, described = server.get("/openapi.json")
    assert described["openapi"].startswith("3.1")
    for path, verbs in described["paths"].items():
        for verb in verbs:
            status, _, _ = server.send(verb.upper(), path, b"{}" if verb == "post" else None)
            assert status in (200, 400), path
    _, answer = server.post("/api/annotate", {"text": TEXT, "draw": True})
    schema = described["paths"]["/api/annotate"]["post"]["responses"]["200"]["content"]
    sentence = schema["application/json"]["schema"]["properties"]["sentences"]["items"]
    told = sentence["properties"]
    for found in answer["sentences"]:  # nothing is answered that is not described
        assert found.keys() <= told.keys()
        for token in found["tokens"]:
            assert token.keys() <= told["tokens"]["items"]["properties"].keys()
    assert any("multiwords" in found for found in answer["sentences"])
    assert {"400", "408", "413", "503"} <= described["paths"]["/process"]["post"][
        "responses"
    ].keys()
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(answer, schema["application/json"]["schema"])
    _, why = server.post("/api/explain", {"conllu": answer["sentences"][0]["conllu"], "word": 1})
    schema = described["paths"]["/api/explain"]["post"]["responses"]["200"]["content"]
    jsonschema.validate(why, schema["application/json"]["schema"])


# ---- UDPipe's clients ----------------------------------------------------------------------------


def as_its_client_does(address, verb, fields):
    """A form as UDPipe's own client makes it, of standard library parts."""
    message = email.mime.multipart.MIMEMultipart("form-data", policy=email.policy.HTTP)
    for name, value in fields.items():
        part = email.mime.nonmultipart.MIMENonMultipart(
            "application", "octet-stream", policy=email.policy.HTTP
        )
        part.add_header("Content-Disposition", f'form-data; name="{name}"')
        part.add_header("Content-Transfer-Encoding", "binary")
        part.set_payload(value.encode().decode("ascii", "surrogateescape"))
        message.attach(part)
    data = message.as_bytes().split(b"\r\n\r\n", maxsplit=1)[1]
    request = urllib.request.Request(
        address + verb, data, {"Content-Type": message["Content-Type"]}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_udpipes_client(server):
    with urllib.request.urlopen(server.address + "models") as answer:
        found = json.loads(answer.read())
    assert found["models"]["en"] == ["tokenizer", "tagger", "parser"]
    assert found["default_model"] == "en"
    asked = {
        "data": "Ada flew to Oslo — olé.",
        "tokenizer": "",
        "tagger": "",
        "parser": "",
        "model": "en",
    }
    whole = as_its_client_does(server.address, "process", asked)
    assert whole["model"] == "en"
    assert any("EWT" in line for line in whole["acknowledgements"])
    rows = [x.split("\t") for x in whole["result"].splitlines() if x[:1].isdigit()]
    assert [r[1] for r in rows] == ["Ada", "flew", "to", "Oslo", "—", "olé", "."]
    assert rows[3][3:5] == ["PROPN", "NNP"]
    assert rows[1][6:8] == ["0", "root"]
    assert "NER=" not in whole["result"]  # nothing that UDPipe does not give
    del asked["parser"]
    tagged = as_its_client_does(server.address, "process", asked)["result"]
    rows = [x.split("\t") for x in tagged.splitlines() if x[:1].isdigit()]
    assert {r[6] for r in rows} == {"_"}
    assert rows[0][3] == "PROPN"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_udpipes_parameters(server, method):
    def process(**fields):
        form = urllib.parse.urlencode(fields)
        kind = {"content-type": "application/x-www-form-urlencoded"}
        sent = ("GET", f"/process?{form}") if method == "GET" else ("POST", "/process", form, kind)
        status, _, found = server.send(*sent)
        return status, json.loads(found)["result"] if status == 200 else found.decode()

    assert process(data="Ada sings. It rains.", tokenizer="", output="horizontal") == (
        200,
        "Ada sings .\nIt rains .\n",
    )
    assert process(data="Ada sings.", tokenizer="", output="vertical")[1] == "Ada\nsings\n.\n\n"
    assert process(data="Ada  sings.", tokenizer="", output="plaintext")[1] == "Ada sings.\n"
    horizontal = process(data="Ada sings .\nIt rains .", input="horizontal", tagger="")[1]
    vertical = process(data="Ada\nsings\n.\n\nIt\nrains\n.\n", input="vertical", tagger="")[1]
    assert horizontal == vertical
    assert horizontal.count("PUNCT") == 2
    given = (DEMO / "test.conllu").read_text().split("\n\n")[0] + "\n\n"
    assert process(data=given) == (200, given)
    assert process(data=given, model="sl", parser="")[0] == 200  # the beginning of a name
    assert process(tagger="") == (400, "the required argument data is missing\n")
    for name in ("input", "output"):
        status, told = process(data="x", **{name: "matxin"})
        assert (status, told.split(":")[0]) == (400, f"unknown {name} 'matxin'")
    assert process(data="x", model="no")[0] == 400
    for name in ("english", "english-ewt-ud-2.15-241121", "eng", "en"):
        assert process(data=given, model=name) == (200, given)
    plain = process(data="Ada sings.", tokenizer="")[1]
    ranges = process(data="Ada sings.", tokenizer="ranges")[1]
    assert [line.split("\t")[-1] for line in plain.splitlines() if "\t" in line] == [
        *("_", "SpaceAfter=No", "_")
    ]
    assert "\tTokenRange=0:3\n" in ranges
    assert "\tSpaceAfter=No|TokenRange=4:9\n" in ranges
    status, told = process(data="x", tokenizer="presegmented")
    assert (status, told[:48]) == (400, "the tokenizer has no option 'presegmented', only")
    assert process(data="1\tx\n", tagger="")[0] == 400


# ---- Bad input, limits ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/annotate", b"\xff\xfe\x00\x01" * 100, 400, "the body is not JSON"),
        ("/api/annotate", b'{"text": "Ada', 400, "the body is not JSON"),
        ("/api/annotate", b"[" * 90_000, 400, "it is too deep"),
        ("/api/annotate", b'{"text": ' + b"9" * 9000 + b"}", 400, "a number that is too long"),
        ("/api/annotate", b"[1]", 400, "must be an object such as"),
        ("/api/annotate", b"{}", 400, "the field 'text' is missing"),
        ("/api/annotate", b'{"text": 3}', 400, "the field 'text' must be a string"),
        ("/api/annotate", b'{"text": "a", "draw": 1}', 400, "'draw' must be true or false"),
        ("/api/annotate", b'{"text": "a", "model": "enn"}', 400, "did you mean 'en'?"),
        ("/api/annotate", b'{"text": "a", "model": "/etc/passwd"}', 400, "is served here, but en"),
        ("/api/annotate", b'{"text": "a", "format": "iob"}', 400, "raw or conllu, not 'iob'"),
        ("/api/annotate", b'{"text": "Ada.", "model": "sl-parse"}', 400, "the parser reads tags"),
        ("/api/annotate", b'{"text": "1 x", "format": "conllu"}', 400, "expected 10 columns"),
        ("/api/annotate", b" " * 100_001, 413, "larger than 100,000 bytes"),
        ("/api/annotate", b" " * 10_000_000, 413, "larger than 100,000 bytes"),
        ("/api/explain", b'{"conllu": "", "word": 1}', 400, "is empty"),
        ("/api/explain", b'{"conllu": "x", "word": true}', 400, "'word' must be a whole number"),
        ("/api/explain", b'{"word": 1}', 400, "the field 'conllu' is missing"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(server, path, body, status, message):
    found, answer = server.post(path, body)
    assert (found, list(answer)) == (status, ["error"])
    assert message in answer["error"]
    assert "\n" not in answer["error"]
    assert "Traceback" not in answer["error"]


def test_sentences_that_are_too_long(server):
    """What a parser would need minutes for, and nothing could stop: 30 kB were enough."""
    words = "".join(f"{i}\tAda" + "\t_" * 8 + "\n" for i in range(1, 402)) + "\n"
    told = "a sentence has 401 words: it may have 400 at most"
    asked = [
        ("/api/annotate", {"text": words, "format": "conllu"}),
        ("/api/explain", {"conllu": words, "word": 1}),
    ]
    for path, body in asked:
        assert server.post(path, body) == (400, {"error": told})
    for kind, data in (
        ("conllu", words),
        ("horizontal", "Ada " * 401),
        ("vertical", "Ada\n" * 401),
    ):
        form = urllib.parse.urlencode({"data": data, "input": kind, "parser": ""})
        heading = {"content-type": "application/x-www-form-urlencoded"}
        status, _, answer = server.send("POST", "/process", form, heading)
        assert (status, answer.decode()) == (400, told + "\n")


def test_pieces_are_of_few_words():
    sentence = "".join(f"{i}\tAda" + "\t_" * 8 + "\n" for i in range(1, 301)) + "\n"
    block = from_bytes(("# a\n" + sentence * 5 + "1\tb" + "\t_" * 8 + "\n\n").encode(), "-", CONLLU)
    found = [*pieces(block)]
    assert [np.diff(piece.sentences).tolist() for piece in found] == [
        [300] * 2,
        [300] * 2,
        [300, 1],
    ]
    assert b"".join(piece.buf.tobytes() for piece in found) == block.buf.tobytes()


def test_odd_texts(server):
    for text in (
        "\0\x01\x7f",
        "\ud800",
        "\n\n\n",
        "a" * 90_000,
        "\u200d\u202e🎉",
        "<script>alert(1)</script>",
    ):
        status, found = server.post("/api/annotate", {"text": text, "draw": True})
        assert status == 200, found
        assert "<script" not in "".join(s["svg"] for s in found["sentences"])


def test_unknown_paths_and_methods(server):
    assert server.get("/nothing") == (404, {"error": "Not Found"})
    assert server.get("/../../etc/passwd")[0] == 404
    assert server.get("/api/annotate")[0] == 405
    status, _, told = server.send("POST", "/process", b"x", {"content-type": "text/plain"})
    assert (status, told) == (400, b"a form is expected, not text/plain\n")
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert server.send("POST", "/process", b"nothing", kind)[0] == 400


def test_closed_connections(server):
    """Half a request, a request whose client goes away, a chunked one that is too large."""
    head = b"POST /api/annotate HTTP/1.1\r\nHost: x\r\n"
    whole = json.dumps({"text": TEXT * 20}).encode()
    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + (b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 99
    for sent in (
        b"POST /api",
        head + b"Content-Length: 90\r\n\r\n{",
        head + b"Content-Length: %d\r\n\r\n" % len(whole) + whole,
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(sent)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head + chunks + b"0\r\n\r\n")
        assert b" 413 " in client.recv(1 << 16)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head + b"Content-Length: 99999999999\r\n\r\n" + b" " * 100)
        assert b" 413 " in client.recv(1 << 16)  # nobody waits for 100 GB
    assert server.post("/api/annotate", {"text": TEXT})[0] == 200


@pytest.fixture
def impatient():
    """The port of a server that waits half a second for headers."""

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"here"})

    class Quick(connections.Connection):
        patience = 0.5

    bound = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(app, http=Quick, lifespan="off", log_level="error")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])))
    thread.start()
    yield bound.getsockname()[1]
    server.should_exit = True
    thread.join(30)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: "])
@pytest.mark.parametrize("kept", [False, True])
def test_half_of_the_headers_is_not_waited_for_for_ever(impatient, sent, kept):
    """Neither on a new connection nor on one that is kept, even if single bytes go on coming."""
    whole = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", impatient), 30) as one:
        if kept:
            one.sendall(whole)
            assert b"200 OK" in one.recv(4096)
            one.sendall(sent or b"G")
        elif sent:
            one.sendall(sent)
        answer = b""
        one.settimeout(0.1)
        for _ in range(100):
            try:
                data = one.recv(4096)
            except TimeoutError:
                data = None
            except ConnectionResetError:  # it was closed before the last byte arrived
                break
            if data == b"":
                break
            answer += data or b""
            with contextlib.suppress(OSError):
                one.sendall(b"y" if sent else b"")
        else:
            raise AssertionError("the connection is still open")
    if not kept or sent:
        assert b"408" in answer
        assert b"did not arrive in time" in answer
    with socket.create_connection(("127.0.0.1", impatient), 30) as other:
        other.sendall(whole)
        assert b"200 OK" in other.recv(4096)


def test_time_and_concurrency_are_limited(small):
    status, answer = small.post("/api/annotate", {"text": "Ada sings to the old moon. " * 9000})
    assert (status, answer) == (503, {"error": "it took longer than 0.2 s: send less text"})
    body = {"text": "Ada sings. " * 3000}
    with ThreadPoolExecutor(12) as pool:
        found = [*pool.map(lambda _: small.post("/api/annotate", body), range(12))]
    refused = [answer["error"] for status, answer in found if status == 503]
    assert any("2 requests are waiting: try again" in told for told in refused)
    assert small.post("/api/annotate", {"text": TEXT})[0] == 200


def test_the_same_answers_from_many_threads(server):
    texts = [f"Ada flew to Oslo with {n} friends." for n in range(8)]
    expected = [server.post("/api/annotate", {"text": t}) for t in texts]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda t: server.post("/api/annotate", {"text": t}), texts)] == expected


def test_headers_and_log(server):
    for path in ("/", "/page.js", "/page.css", "/drawing.css", "/api/models"):
        status, headers, _ = server.send("GET", path)
        assert status == 200
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    server.post("/api/annotate", {"text": "A secret sentence."})
    time.sleep(0.3)
    line = server.log[-1]
    assert re.fullmatch(
        r"\S+T\S+ 127\.0\.0\.1 POST '/api/annotate' 200 \d+ B in, \d+ B out, \d+ ms", line
    )
    assert not any("secret" in line for line in server.log)


def test_the_page_loads_nothing_from_elsewhere(server):
    for path in ("/", "/page.js", "/page.css", "/drawing.css"):
        _, _, content = server.send("GET", path)
        found = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)", found), path


# ---- The process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_being_worked_on_is_finished(number):
    made = Server("en-pos")
    answers = []
    body = {"text": "Ada sings to the old moon. " * 3000}
    client = threading.Thread(target=lambda: answers.append(made.post("/api/annotate", body)))
    client.start()
    while made.get("/api/health")[1]["running"] == 0:
        time.sleep(0.01)
    made.process.send_signal(number)
    client.join(60)
    made.process.wait(60)
    made.reader.join(10)
    assert answers[0][0] == 200
    assert made.process.returncode == 128 + number
    assert made.log[-1] == f"turbotag: {'interrupted' if number == signal.SIGINT else 'terminated'}"
    assert not any("Traceback" in line for line in made.log)


def test_answers_are_sent_at_once():
    """A socket that does not say that it is of TCP has no TCP_NODELAY from asyncio: answers on a
    connection that is kept took 40 ms more."""
    with contextlib.closing(_bind("127.0.0.1", 0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_killed_and_started_again():
    first = Server("en-upos")
    first.process.kill()
    first.process.wait(30)
    port = str(first.port)
    again = subprocess.Popen(
        [*TURBOTAG, "serve", "en-upos", "--port", port], stderr=subprocess.PIPE, text=True
    )
    try:
        assert f":{port} " in again.stderr.readline()
        assert first.post("/api/annotate", {"text": TEXT})[0] == 200
        taken = run_new("serve", "en-upos", "--port", port)
        one_sentence(taken, 2, f"cannot listen at 127.0.0.1, port {port}: address already in use")
    finally:
        again.terminate()
        again.wait(30)


def test_refused(tmp_path):
    one_sentence(run_new("serve", "nothing"), 1, "is neither a file nor a shipped model")
    one_sentence(run_new("serve", "en-upos", "en-upos"), 2, "two models are called 'en-upos'")
    one_sentence(run_new("serve"), 2, "Missing argument 'MODEL...'")
    hidden = tmp_path / "starlette.py"
    hidden.write_text("raise ModuleNotFoundError('no', name='starlette')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from turbotag.cli.main import main; main(['serve', 'en'])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    one_sentence(done, 2, "serve needs the package starlette: pip install 'turbotag[serve]'")
