#!/usr/bin/env bash
# Checks the tools that everything here needs, and installs the C compiler that the race detector links with. With the argument
# "browser" it also brings the one that the status page's test opens (Debian: 100 MB to fetch, 306 MB on disk); where that cannot be
# installed, it says so and goes on.
set -euo pipefail
for tool in go node npm git; do
  command -v $tool >/dev/null || { echo "setup: $tool is needed and not on the PATH" >&2; exit 1; }
done
if [ "${1:-}" = browser ]; then
  for browser in chromium-headless-shell headless-shell chromium chromium-browser google-chrome none; do
    command -v $browser >/dev/null && break
  done
  if [ $browser = none ] && { [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null || ! { echo "setup: installing chromium-headless-shell" >&2
      apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null; }; }; then
    echo "setup: please install Chromium for the status page's test: chromium-headless-shell or chromium of Debian, or google-chrome, on the PATH" >&2
  fi
fi
missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v unshare >/dev/null || missing+=(util-linux)
command -v column >/dev/null || missing+=(bsdextrautils)
command -v python3 >/dev/null || missing+=(python3)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "setup: please install: ${missing[*]} (as root on Debian this is done for you)" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}" >&2
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
