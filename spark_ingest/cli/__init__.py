"""The command line: one verb, one module, imported only when its verb is used.

def add_arguments(parser: argparse.ArgumentParser) -> None: ...
def run(arguments: argparse.Namespace) -> int: ...      # an ExitCode
"""
