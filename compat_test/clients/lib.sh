# What the run scripts of the clients share; each sources it first. It sets `here`, the client's own folder, and
# CLIENTS_CACHE, where installed packages are kept from run to run.
#
# A client's run script prints nothing on standard output but its report (see README.md), so all that is said here goes
# to standard error.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
CLIENTS_CACHE=${CLIENTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gateway-clients}
export CLIENTS_CACHE
mkdir -p "$CLIENTS_CACHE"

# absent REASON: this client cannot be had here. Ends the script.
absent() {
  echo "$*" >&2
  exit 3
}

# retry COMMAND...: up to four times, since a registry may be away for a moment.
retry() {
  local try
  for try in 1 2 3 4; do
    "$@" >&2 && return 0
    echo "try $try of 4 failed: $*" >&2
    [ "$try" -eq 4 ] || sleep $((try * 3))
  done
  return 1
}

# need COMMAND PACKAGE: COMMAND is there, if need be from Debian's PACKAGE.
need() {
  command -v "$1" >/dev/null && return
  debian "$2"
  command -v "$1" >/dev/null || absent "no $1 here, and Debian's $2 could not be installed"
}

# debian PACKAGE...: installs Debian's packages, after an update of what is known of them; runs side by side wait for each
# other, and update once in an hour.
debian() {
  local lock updated=$CLIENTS_CACHE/apt-updated code
  command -v apt-get >/dev/null || { echo "no apt-get for $*" >&2; return 1; }
  exec {lock}>"$CLIENTS_CACHE/apt.lock"
  flock "$lock"
  if [ -z "$(find "$updated" -mmin -60 2>/dev/null)" ]; then
    retry apt-get update -qq && touch "$updated"
  fi
  DEBIAN_FRONTEND=noninteractive retry apt-get install -y -qq -o DPkg::Lock::Timeout=120 "$@"
  code=$?
  exec {lock}>&-
  return $code
}

# installed NAME FUNCTION: runs FUNCTION in the folder $CLIENTS_CACHE/NAME unless it has succeeded there before, and
# sets `installed` to that folder. NAME must say every pinned version, so that another pin is another folder.
# Runs side by side wait for each other.
installed() {
  local lock
  installed=$CLIENTS_CACHE/$1
  exec {lock}>"$installed.lock"
  flock "$lock"
  if [ ! -f "$installed/complete" ]; then
    rm -rf "$installed"
    mkdir -p "$installed"
    (cd "$installed" && "$2") >&2
    case $? in
      0) ;;
      3) exit 3 ;; # the function has said why it is absent
      *) absent "could not install $1" ;;
    esac
    touch "$installed/complete"
  fi
  exec {lock}>&-
}

# venv NAME==VERSION...: a Python of its own with these packages; sets `python`.
venv() {
  need python3 python3
  venv_pins=("$@")
  local name
  name=$(IFS=+; echo "${venv_pins[*]}")
  installed "python-${name//==/-}" venv_install
  python=$installed/bin/python
  export PYTHONDONTWRITEBYTECODE=1 # nothing is left beside the programs
}

venv_install() {
  python3 -m venv . || { debian python3-venv && python3 -m venv .; } || return 1
  retry bin/pip install --quiet --disable-pip-version-check "${venv_pins[@]}"
}

# go_client FOLDER ARGUMENT...: builds and runs the program in FOLDER of ../go.
go_client() {
  local built code
  command -v go >/dev/null || absent "no Go here"
  cd "$here/../go" || exit 1
  retry go mod download || absent "the modules of go.mod could not be fetched"
  built=$(mktemp -d)
  go build -o "$built/client" "./$1" >&2 && "$built/client" "${@:2}"
  code=$?
  rm -rf "$built"
  exit $code
}

# feature NAME FUNCTION: for clients that are driven by a shell: runs FUNCTION, which ends at its first command that
# fails, and reports on it. The last line of its standard error is the reason.
feature() {
  local said code
  said=$(set -e; "$2" 2>&1 >/dev/null) # not as a condition: set -e means nothing in one
  code=$?
  if [ $code -eq 0 ]; then
    echo "$1 pass"
  else
    echo "$said" >&2
    echo "$1 fail $(tail -n 1 <<<"${said:-no reason given}")"
  fi
}

# unsupported FEATURE REASON: the client has no such call.
unsupported() { echo "$1 unsupported $2"; }

# same WHAT GOT WANT: fails and shows the first line that differs.
same() {
  [ "$2" = "$3" ] && return
  local differ
  differ=$(diff <(echo "$2") <(echo "$3") || true)
  echo "$1: got $(wc -l <<<"$2") lines, want $(wc -l <<<"$3"); got '$(sed -n 's/^< //p' <<<"$differ" | head -n 1)', want '$(sed -n 's/^> //p' <<<"$differ" | head -n 1)'" >&2
  return 1
}
