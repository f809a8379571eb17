"""python -m turbotag, and the command itself."""

import signal


def start() -> None:
    """Run the command line; Ctrl-C before that is imported ends the process in silence."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from turbotag.cli.main import main

    main()


if __name__ == "__main__":
    start()
