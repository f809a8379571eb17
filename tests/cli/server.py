"""A process that has loaded the kernels, and forks one for each command: start-up is done once.

    python server.py SOCKET DEMO              wait for commands; a line on stdout says when
    python server.py SOCKET ARGUMENTS...      a client: turbotag with these arguments, here

A client sends its arguments, its folder and its stdin, stdout and stderr themselves, so commands
can be parts of a pipe in a shell; the server answers with the exit code.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import traceback


def call(place, arguments, folder, files):
    """The exit code of a command; 1 if it dies before it can say so."""
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(300)
        server.connect(place)
        socket.send_fds(server, [json.dumps([arguments, folder]).encode()], files)
        return int(server.recv(16) or 1)


def serve(place, demo):
    """Answer commands until stdin is closed, which is when the tests end, however they end."""
    main = warm(demo)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forked
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    print("ready", flush=True)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        client, _ = listener.accept()
        request, files, _, _ = socket.recv_fds(client, 1 << 20, 3)
        if not os.fork():
            listener.close()
            answer(main, client, *json.loads(request), files)
        for file in files:
            os.close(file)
        client.close()


def warm(demo):
    """Import what commands need, and run it once."""
    import turbotag
    from turbotag import kernels

    kernels.tell(lambda line: None)  # tests do not depend on what is compiled already
    from turbotag import training
    from turbotag.cli import calibrate, draw, eval, inspect, main, models, predict, report, train  # noqa: F401
    from turbotag.corpus.reader import read
    from turbotag.models import evaluation  # noqa: F401
    from turbotag.report import attachment, draw_html, model_card, tables  # noqa: F401
    from turbotag.training import options

    for task, file in (("ner", "dev.iob2"), ("parse", "dev.conllu")):
        model, _ = training.train(options.options_for(task, f"{demo}/{file}", epochs=1))
    model.parse(read(f"{demo}/dev.conllu"), probabilities=True)
    turbotag.load("en")("Ada flew to Oslo. It didn't rain.")
    return main.main


def answer(main, client, arguments, folder, files):
    """Run a command in this process, which is forked for it, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        os.chdir(folder)
        for to, file in enumerate(files):
            os.dup2(file, to)
            os.close(file)
        sys.argv = ["turbotag", *arguments]
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):  # a closed pipe
            sys.stdout.flush()
            sys.stderr.flush()
        client.sendall(str(code).encode())
        os._exit(code)  # to take numba apart takes longer than most commands


if __name__ == "__main__":
    place, *given = sys.argv[1:]
    if os.path.exists(place):
        raise SystemExit(call(place, given, os.getcwd(), [0, 1, 2]))
    serve(place, *given)
