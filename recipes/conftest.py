"""The tests press Ctrl-C in programs that they start."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every program started from here would be deaf to it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
