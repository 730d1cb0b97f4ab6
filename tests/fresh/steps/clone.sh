# Named as everybody names it, in a folder of the user's own.
cd
git clone --quiet /srv/fresh/tidegate.bundle tidegate
cd tidegate
echo "=> $(python3 --version), $(uname -m), revision $(git log -1 --format=%h)"
