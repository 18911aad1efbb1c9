#!/bin/sh
# Prints the home folder of a Java that Spark runs on (17 or later), installing one where that is allowed.
set -u
here=$(dirname "$0")

# The home of the java at $1, if that runs and is new enough.
home_of() {
    [ -x "$1" ] || return 1
    "$1" -XshowSettings:properties -version 2>&1 | awk -F ' = ' '
        $1 ~ /^ *java\.home$/ { home = $2 }
        $1 ~ /^ *java\.specification\.version$/ { version = $2 }
        END { if (home == "" || version + 0 < 17) exit 1; print home }'
}

find_home() {
    for java in "${JAVA_HOME:-}/bin/java" "$(command -v java)" /usr/lib/jvm/*/bin/java \
        /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java \
        /opt/homebrew/opt/openjdk*/bin/java /usr/local/opt/openjdk*/bin/java; do
        home_of "$java" && return 0
    done
    return 1
}

find_home && exit 0
"$here/install.sh" "Java 17 or later" \
    apt-get:openjdk-21-jre-headless apt-get:openjdk-17-jre-headless \
    dnf:java-21-openjdk-headless dnf:java-17-openjdk-headless \
    apk:openjdk21-jre-headless apk:openjdk17-jre-headless brew:openjdk@21 >&2 || exit 1
find_home && exit 0
echo "Java was installed but not found; set JAVA_HOME to its home folder." >&2
exit 1
