"""`python -m recipes.streaming_tool_output`: ends in order whenever it is interrupted, also before it has begun."""

from __future__ import annotations

import signal
import sys

from .signals import interrupt_on_signals


def run() -> int:
    """Everything that takes time is imported here, where an interruption is heard."""
    try:
        interrupt_on_signals()
        from .command_line import main  # noqa: PLC0415

        return main(sys.argv[1:])
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith(("streamkit", "recipes")):
            raise
        hint = "run `make demo`, or `pip install -e '.[http,cli]'`"
        print(f"streamkit: {missing.name} is not installed; {hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interrupted:
        print("\ncancelled", "before it began" if interrupted.args else "at its end", file=sys.stderr)
        return 128 + int(interrupted.args[0] if interrupted.args else signal.SIGINT)


if __name__ == "__main__":
    sys.exit(run())
