"""`python -m recipes.streaming_tool_output`: ends in order whenever it is interrupted, also before it has begun."""

from __future__ import annotations

import sys

from .signals import end_on_signals


def run() -> int:
    """Everything that takes time is imported here, where an interruption is heard."""
    end_on_signals()
    try:
        from .command_line import main  # noqa: PLC0415 - see above

        return main(sys.argv[1:])
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith(("streamkit", "recipes")):
            raise
        hint = "run `make demo`, or `pip install -e '.[http,cli]'`"
        print(f"streamkit: {missing.name} is not installed; {hint}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run())
