#!/bin/sh
# Prints the command of a Python 3.11 to 3.13 that can make virtual environments, installing what is missing where
# that is allowed.
set -u
here=$(dirname "$0")

supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
    command -v "$name" >/dev/null 2>&1 && "$name" -c "$supported" 2>/dev/null || continue
    # Debian and Ubuntu ship Python without the part that puts pip into a virtual environment.
    if ! "$name" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        "$here/install.sh" "the venv module of Python $version" \
            "apt-get:python$version-venv" >&2 || exit 1
    fi
    echo "$name"
    exit 0
done
"$here/install.sh" "Python 3.11, 3.12 or 3.13" \
    apt-get:python3.13-venv apt-get:python3.12-venv apt-get:python3.11-venv \
    dnf:python3.13 dnf:python3.12 dnf:python3.11 apk:python3 brew:python@3.13 >&2 || exit 1
for name in python3.13 python3.12 python3.11 python3; do
    command -v "$name" >/dev/null 2>&1 && "$name" -c "$supported" && echo "$name" && exit 0
done
echo "No Python 3.11 to 3.13 was found; set PYTHON to its path." >&2
exit 1
