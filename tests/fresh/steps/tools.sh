apt-get -o Dpkg::Use-Pty=0 update
apt-get install -y --no-install-recommends pipx
