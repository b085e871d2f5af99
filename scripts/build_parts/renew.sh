# shellcheck shell=bash
# Part of the scripts that build: what to do with a build folder that came with a copied or renamed checkout.

# renew FOLDER: CMake's files in FOLDER refer to absolute paths. If these are not of this checkout (the working folder), the
# folder is configured again, as a build would otherwise compile the sources of the other checkout.
renew() {
  local cache=$1/CMakeCache.txt sources place
  [[ -f $cache ]] || return 0
  sources=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
  place=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$cache")
  if [[ ! $sources -ef . || ! $place -ef $1 ]]; then
    echo "$1 was configured for $sources; it is configured again for $PWD" >&2
    rm -rf "$cache" "$1/CMakeFiles" "$1/build.ninja"
  fi
}
