"""Names the extra where the package that all modules here need is not installed. It is imported before them."""

try:
    import starlette  # noqa: F401
except ImportError as missing:
    raise ImportError("to serve runs over HTTP install Starlette: pip install 'streamkit-tools[web]'") from missing
