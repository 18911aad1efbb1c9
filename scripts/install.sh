#!/bin/sh
# install.sh WHAT MANAGER:PACKAGE...
# Installs the first package that this machine's package manager has. Where it may not, prints the command to type.
set -u
what=$1
shift

# Whether the manager $1 knows the package $2.
has() {
    case $1 in
    apt-get) apt-cache show "$2" ;;
    dnf) dnf -q list "$2" ;;
    apk) apk search -e "$2" | grep . ;;
    brew) brew info "$2" ;;
    esac >/dev/null 2>&1
}

# The words in front of a command of the manager $1, which only root may run; Homebrew refuses root.
prefix_of() {
    [ "$1" = brew ] || [ "$(id -u)" -eq 0 ] || echo sudo
}

may_run() {
    [ -z "$prefix" ] || sudo -n true 2>/dev/null
}

command=
for choice; do
    manager=${choice%%:*}
    package=${choice#*:}
    command -v "$manager" >/dev/null 2>&1 || continue
    prefix=$(prefix_of "$manager")
    if [ -z "$command" ] && may_run; then
        case $manager in
        apt-get) $prefix apt-get update -qq >/dev/null ;;
        apk) $prefix apk update -q ;;
        esac
    fi
    case $manager in
    apt-get) command="apt-get install -y $package" ;;
    dnf) command="dnf install -y $package" ;;
    apk) command="apk add $package" ;;
    brew) command="brew install $package" ;;
    esac
    has "$manager" "$package" || continue
    if may_run; then
        echo "Installing $what: ${prefix:+$prefix }$command"
        # shellcheck disable=SC2086 # the command is a list of words
        $prefix $command </dev/null >/dev/null && exit 0
    fi
    break
done

echo "$what is missing. Install it${command:+ with}"
if [ -n "$command" ]; then
    printf '\n    %s%s\n\n' "${prefix:+$prefix }" "$command"
fi
echo "and run make again."
exit 1
