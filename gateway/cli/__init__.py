"""The command line: one verb, one module. `verbs.py` is the table, `__main__.py` the frame.

A verb's module has two functions, and is imported only when its verb is used:

    def add_arguments(parser: argparse.ArgumentParser) -> None: ...
    def run(arguments: argparse.Namespace) -> int: ...      # an ExitCode

Answers go to stdout, errors to stderr. Heavy imports (asyncio, the daemon) belong inside `run`,
so that `--help` stays fast on a small board.
"""
