#!/usr/bin/env bash
# Prints the path of the CA certificates; installs Debian's when there are none and root may.
set -euo pipefail
file=/etc/ssl/certs/ca-certificates.crt
if [ ! -s "$file" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "certificates: $file is missing: install ca-certificates" >&2
    exit 1
  fi
  echo "certificates: installing ca-certificates" >&2
  { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends ca-certificates; } >&2
fi
echo "$file"
