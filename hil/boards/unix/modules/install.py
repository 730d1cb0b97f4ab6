"""`install.py SUPPLY format` makes a new file system and copies /host/files to it; with another
last word it only copies.

MicroPython does it itself, so that its flash is as those of boards.
"""

import os
import sys
import vfs

CHUNK = 4096


def install(supply, how):
    modules = __file__.rsplit("/", 1)[0]
    vfs.mount(vfs.VfsPosix(modules), "/board")
    vfs.mount(vfs.VfsPosix(supply), "/host")
    vfs.umount("/")
    sys.path[:] = ["/board"]
    import flash

    if how == "format":
        vfs.VfsLfs2.mkfs(flash.device, readsize=flash.UNIT, progsize=flash.UNIT)
    vfs.mount(flash.file_system(), "/")
    copy("")


def copy(folder):
    for name, kind, *_ in os.ilistdir("/host/files" + folder):
        path = folder + "/" + name
        if kind == 0x4000:
            try:
                os.mkdir(path)
            except OSError:
                pass  # it is there
            copy(path)
        else:
            with open("/host/files" + path, "rb") as source, open(path, "wb") as target:
                while octets := source.read(CHUNK):
                    target.write(octets)


install(*sys.argv[1:])
