engine=
for each in podman docker; do
    if $each info >/dev/null 2>&1; then engine=$each && break; fi
done
if [[ -z $engine ]]; then
    echo "=> not run: neither podman nor docker has an engine that answers here"
    exit 0
fi
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone --quiet . "$clone"
$engine build -f "$clone/Containerfile" -t tidegate-fresh "$clone"
$engine run --rm tidegate-fresh --version
$engine run --rm tidegate-fresh check
$engine rmi tidegate-fresh
