# What the clients for Node share; their run scripts source it after ../lib.sh.

# packages NAME@VERSION...: from npm; programs find them with require.
packages() {
  need node nodejs
  need npm npm
  npm_wanted=("$@")
  local name
  name=$(IFS=+; echo "$*")
  name=${name//@/-}
  installed "npm-${name//\//-}" npm_install
  export NODE_PATH=$installed/node_modules
}

npm_install() {
  echo '{"private": true}' >package.json
  retry npm install --silent --no-audit --no-fund "$@" "${npm_wanted[@]}"
}
