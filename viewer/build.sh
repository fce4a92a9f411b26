#!/usr/bin/env bash
# Bundles the viewer into the package. Equal sources give equal files: `make viewer`, checked in tests/browser.
set -euo pipefail
cd "$(dirname "$0")"
to="${1:-../src/pellucid/views/viewer}"
mkdir -p "$to"
options=(--minify --charset=utf8 --legal-comments=none --log-level=warning)
esbuild main.js --bundle --format=iife --target=es2022 "${options[@]}" --outfile="$to/viewer.js"
esbuild loader.js "${options[@]}" --outfile="$to/loader.js"
esbuild viewer.css --bundle "${options[@]}" --outfile="$to/viewer.css"
