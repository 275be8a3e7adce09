"""Entry point of the `gnomon` command, outside the package: importing that takes half a second, in which Ctrl-C must
end the process as it ends any other and not with a traceback."""

import signal


def main() -> None:
    """As `gnomon.cli.main`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a verb begins
    from gnomon.cli import main as command

    command()
