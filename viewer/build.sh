#!/usr/bin/env bash
# Minifies the viewer into the package, a module a file; src/pellucid/views/script.py links those that a page needs.
# Equal sources give equal files: `make viewer`, checked in tests/browser.
set -euo pipefail
cd "$(dirname "$0")"
to="${1:-../src/pellucid/views/viewer}"
mkdir -p "$to"
rm -rf "$to/modules" "$to/styles"
options=(--minify --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning)
mapfile -t modules < <(find . -name '*.js' -not -path './loader.js' -not -path './node_modules/*' | LC_ALL=C sort)
esbuild "${modules[@]}" --format=esm "${options[@]}" --outbase=. --outdir="$to/modules"
esbuild loader.js "${options[@]}" --outfile="$to/loader.js"
mapfile -t styles < <(find . -name '*.css' -not -path './node_modules/*' | LC_ALL=C sort)
esbuild "${styles[@]}" "${options[@]}" --outbase=. --outdir="$to/styles"
