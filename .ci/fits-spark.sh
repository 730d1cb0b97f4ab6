#!/usr/bin/env bash
# Whether this machine has Spark in its .venv, or room and memory enough that the tests of the tables
# may bring it: 64 bits, 4 GiB of memory, 4 GiB free. A gateway's board is mostly neither.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MEMORY_KIB_MIN=3906250 # boards of 4 GB have a little less than 4 GiB
DISK_FREE_KIB_MIN=4194304

if [[ -e .venv/.spark-ready ]]; then exit 0; fi
case $(uname -m) in x86_64 | aarch64) ;; *) exit 1 ;; esac
memory_kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
((memory_kib >= MEMORY_KIB_MIN && free_kib >= DISK_FREE_KIB_MIN))
