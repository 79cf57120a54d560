#!/bin/sh
# Makes a checkout ready to run: what the system lacks, .venv, and the locked packages.
#
#   scripts/setup.sh [sandbox] [spark] [dev] [clients]
#
# Each word adds an extra or group of pyproject.toml, `clients` the programs of others that
# `make test-clients` starts: a browser, Postgres, FreeTDS. Nothing that is there is ever removed, so a
# later call with fewer words costs a second and takes nothing away. Everything that the system
# lacks is found before anything is changed. PYTHON=/path/to/python picks another interpreter.
set -eu
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9
LIBRARIES="libodbc.so.2=unixodbc libodbcinst.so.2=unixodbc libltdl.so.7=libltdl7 \
libgssapi_krb5.so.2=libgssapi-krb5-2"
JAVA_OLDEST=17
JAVA_INSTALLED="21 17" # the newest that apt offers is taken
JAVA_FOLDER=${JAVA_FOLDER:-/usr/lib/jvm}
PROGRAMS="chromium=chromium pg_ctlcluster=postgresql tsql=freetds-bin,tdsodbc"

say() { echo "setup: $*"; }

die() {
    echo "setup: $*" >&2
    exit 1
}

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1
}

# The .venv's own interpreter if it works, else the first one on the PATH that fits.
find_python() {
    for candidate in .venv/bin/python ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        found=$(command -v "$candidate" 2>/dev/null) || continue
        if fits "$found"; then
            echo "$found"
            return 0
        fi
    done
    return 1
}

# Loading a library is the only proof that it is there: package names differ between releases.
lacking_libraries() {
    # shellcheck disable=SC2086 # a list of words
    "$python" -c '
import ctypes, sys
for pair in sys.argv[1:]:
    library, package = pair.split("=")
    try:
        ctypes.CDLL(library)
    except OSError:
        print(package)
' $LIBRARIES | sort -u
}

# Packages of the programs that tests start.
lacking_programs() {
    for pair in $PROGRAMS; do
        command -v "${pair%%=*}" >/dev/null 2>&1 || echo "${pair#*=}"
    done | tr ',' '\n'
}

# Debian splits ensurepip off into a package of its own, named after the interpreter's version.
lacking_venv() {
    [ "$python" != .venv/bin/python ] || return 0
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 && return 0
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$version" = "$(/usr/bin/python3 -c \
        'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" ]; then
        echo python3-venv
    else
        echo "python$version-venv"
    fi
}

# A Java's major version by its command; nothing where there is none.
java_version() {
    java=$(command -v "$1" 2>/dev/null) || return 0
    "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | sed -n 1p
}

# The session looks in the same places in the same order: JAVA_HOME, the PATH, Debian's folder. A
# Java that nobody named has to be one of those that Spark is tested on.
java_fits() {
    for java_command in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        [ "$(java_version "$java_command")" -ge "$JAVA_OLDEST" ] 2>/dev/null && return 0
    done
    for java_command in "$JAVA_FOLDER"/*/bin/java; do
        case " $JAVA_INSTALLED " in *" $(java_version "$java_command") "*) return 0 ;; esac
    done
    return 1
}

offered() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }

java_package() {
    for version in $JAVA_INSTALLED; do
        if offered "openjdk-$version-jre-headless"; then
            echo "openjdk-$version-jre-headless"
            return 0
        fi
    done
    return 1
}

# Packages by the names that this release knows: some got a suffix with 64-bit times.
named_here() {
    for package in "$@"; do
        if [ "$package" = java ]; then
            java_package || echo "openjdk-21-jre-headless"
        elif ! offered "$package" && offered "${package}t64"; then
            echo "${package}t64"
        else
            echo "$package"
        fi
    done | sort -u | tr '\n' ' ' | sed 's/ $//'
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

may_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true >/dev/null 2>&1; }

quietly() {
    "$@" >"$log" 2>&1 </dev/null && return 0
    tail -n 20 "$log" >&2
    return 1
}

seconds_since() { echo "$(($(date +%s) - $1)) s"; }

install_system_packages() {
    # shellcheck disable=SC2046,SC2086 # lists of words
    command -v apt-get >/dev/null 2>&1 ||
        die "missing: $(named_here $lacking); there is no apt-get here: install them by hand, then run the same command again"
    # shellcheck disable=SC2046,SC2086
    may_be_root ||
        die "missing: $(named_here $lacking); run: sudo apt-get update && sudo apt-get install -y $(named_here $lacking)"
    began=$(date +%s)
    # An unreachable source of something else is no reason to stop: the install itself decides.
    as_root apt-get update -qq >"$log" 2>&1 </dev/null || say "apt-get update had errors; going on"
    case " $lacking " in *" java "*)
        java_package >/dev/null ||
            die "missing: Java $JAVA_OLDEST or newer, and apt offers none of $JAVA_INSTALLED: install one by hand, then run the same command again" ;;
    esac
    # shellcheck disable=SC2086
    packages=$(named_here $lacking)
    say "apt installs $packages"
    # shellcheck disable=SC2086
    quietly as_root apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 $packages ||
        die "apt-get could not install: $packages"
    say "apt done ($(seconds_since "$began"))"
}

# A test without its program is skipped and says so: what cannot be had keeps nobody from the others.
install_programs() {
    if ! command -v apt-get >/dev/null 2>&1 || ! may_be_root; then
        say "not installed: $(echo $programs); tests that need them are skipped"
        return 0
    fi
    began=$(date +%s)
    as_root apt-get update -qq >"$log" 2>&1 </dev/null || say "apt-get update had errors; going on"
    wanted=""
    for package in $programs; do
        if offered "$package"; then
            wanted="$wanted $package"
        else
            say "apt offers no $package here; tests that need it are skipped"
        fi
    done
    [ -n "$wanted" ] || return 0
    say "apt installs$wanted"
    # shellcheck disable=SC2086
    quietly as_root apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 $wanted || die "apt-get could not install:$wanted"
    say "apt done ($(seconds_since "$began"))"
}

make_venv() {
    began=$(date +%s)
    if [ "$python" = .venv/bin/python ]; then
        "$python" -m pip --version >/dev/null 2>&1 || quietly "$python" -m ensurepip ||
            die ".venv has no pip and cannot get one: remove .venv, then run the same command again"
    else
        quietly "$python" -m venv --clear .venv || die "$python could not make .venv"
        python=.venv/bin/python
    fi
    quietly "$python" -m pip install --quiet --disable-pip-version-check --no-input \
        "uv==$UV_VERSION" || die "pip could not install uv $UV_VERSION into .venv"
    say ".venv with uv $UV_VERSION ($(seconds_since "$began"))"
}

install_packages() {
    began=$(date +%s)
    set --
    for part in $parts; do
        case $part in
            dev) set -- "$@" --group dev ;;
            clients) ;;
            *) set -- "$@" --extra "$part" ;;
        esac
    done
    # uv brings certificates of its own; behind a proxy with one of its own the system knows better.
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"
    # --inexact: Spark stays when only the sandbox is asked for, and so does uv itself.
    env UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV= \
        .venv/bin/uv sync --quiet --frozen --inexact --no-default-groups \
        --python .venv/bin/python "$@" </dev/null ||
        die "uv could not install the packages of uv.lock"
    say "packages ready:${parts:- the core alone} ($(seconds_since "$began"))"
}

parts=""
for part in "$@"; do
    case $part in
        sandbox | spark | dev | clients) parts="$parts $part" ;;
        *) die "unknown part: $part (known: sandbox, spark, dev, clients)" ;;
    esac
done

python=$(find_python) ||
    die "no Python 3.11, 3.12 or 3.13 is on the PATH; install one (sudo apt-get install -y python3), or name it: PYTHON=/path/to/python"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

lacking="$(lacking_venv) $(lacking_libraries | tr '\n' ' ')"
case " $parts " in *" spark "*)
    java_fits || lacking="$lacking java" ;;
esac
# shellcheck disable=SC2086,SC2116 # the words, with one blank between them
lacking=$(echo $lacking)

[ -z "$lacking" ] || install_system_packages
case " $lacking " in *" java "*)
    java_fits || die "Java was installed, yet none of $JAVA_INSTALLED is in $JAVA_FOLDER: set JAVA_HOME to one" ;;
esac
case " $parts " in *" clients "*)
    programs=$(lacking_programs)
    [ -z "$programs" ] || install_programs ;;
esac
if [ "$python" != .venv/bin/python ] || ! .venv/bin/uv --version >/dev/null 2>&1; then
    make_venv
fi
install_packages
