"""The first program of a life: its flash becomes the file system, and there is no other.

    micropython -X heapsize=128k boot.py SUPPLY DEVICE PROGRAM

SUPPLY is a folder of the host, /host on the board: `flash`, and what machine.py keeps there. DEVICE
is the terminal that is its UART 0. PROGRAM is Python.
"""

import ffi
import os
import sys
import vfs

KILL = 9
PR_SET_PDEATHSIG = 1


def start(supply, device, program):
    # The one that holds the switch takes the board along, however they end.
    ffi.open("libc.so.6").func("i", "prctl", "ii")(PR_SET_PDEATHSIG, KILL)
    modules = __file__.rsplit("/", 1)[0]
    vfs.mount(vfs.VfsPosix(modules), "/board")
    vfs.mount(vfs.VfsPosix(supply), "/host")
    vfs.mount(vfs.VfsPosix("/dev"), "/dev")
    vfs.umount("/")
    sys.path[:] = ["/board"]
    import flash
    import machine

    vfs.mount(flash.file_system(), "/")
    os.chdir("/")
    machine.uart_0 = device
    machine.supply = supply
    sys.path[:] = ["", "/lib", "/board", ".frozen"]
    sys.argv[:] = [""]
    exec(program, {"__name__": "__main__"})


start(*sys.argv[1:])
