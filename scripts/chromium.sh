#!/bin/sh
# Installs Chromium where Debian's packages can be had and the user may.
set -eu
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium (about 400 MB, once)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends chromium >/dev/null
else
  echo "make browser needs chromium in the path; on Debian: sudo apt-get install chromium" >&2
  exit 2
fi
