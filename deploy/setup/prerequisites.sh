#!/bin/sh
# Is this machine ready for `make setup`? Says what is missing and the command that mends it.
# Usage: prerequisites.sh PYTHON
set -u
python=$1
java=java
[ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
failed=0

missing() { # missing WHAT FIX...
    printf 'setup: %s\n' "$1" >&2
    shift
    for fix in "$@"; do printf '       %s\n' "$fix" >&2; done
    failed=1
}

check_python() {
    if ! version=$("$python" -c 'import platform; print(platform.python_version())' 2>/dev/null); then
        missing "Python '$python' does not run; Headrace needs Python 3.11 or newer." \
            "Debian, Ubuntu: apt-get install python3 python3-venv" "macOS: brew install python@3.12" \
            "One of another name: make setup PYTHON=python3.12"
    elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        missing "Python '$python' is $version; Headrace needs 3.11 or newer." \
            "Name another one: make setup PYTHON=python3.12"
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        missing "Python '$python' ($version) cannot make virtual environments: ensurepip or venv is not installed." \
            "Debian, Ubuntu: apt-get install python$minor-venv"
    fi
}

install_java() { # install_java WHAT
    missing "$1" \
        "Debian, Ubuntu: apt-get install openjdk-17-jre-headless" "macOS: brew install openjdk@17" \
        "Elsewhere: a full JDK or JRE, 17 or 21. Installed already? Point JAVA_HOME at it."
}

check_java() {
    if ! banner=$("$java" -version 2>&1); then
        install_java "Java '$java' does not run; Spark and Kafka need Java 17 or newer."
        return
    fi
    version=$(printf '%s\n' "$banner" | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1)
    major=${version%%[.+-]*}
    case $major in
        '' | *[!0-9]*) install_java "Java '$java' does not tell its version; Spark and Kafka need 17 or newer." ;;
        *) if [ "$major" -lt 17 ]; then
               install_java "Java '$java' is $version; Spark and Kafka need 17 or newer."
           elif ! "$java" --list-modules 2>/dev/null | grep -q '^jdk.incubator.vector@'; then
               install_java "Java '$java' ($version) is a slim one: module jdk.incubator.vector, which Spark starts with, is not in it."
           elif [ "$major" -gt 21 ]; then
               printf 'setup: note: Java %s; Spark 4.1 is tested with 17 and 21. JAVA_HOME selects another.\n' "$version" >&2
           fi ;;
    esac
}

check_python
check_java
exit $failed
