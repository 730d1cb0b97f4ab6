"""The board's file system, as the application's parts are handed it. Tests hand them another.

open listdir remove rename mkdir
"""

from os import listdir, mkdir, remove, rename

open = open

__all__ = ["listdir", "mkdir", "open", "remove", "rename"]
