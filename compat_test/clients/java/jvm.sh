# What the clients on the JVM share; their run scripts source it after ../lib.sh.

# jars NAME GROUP:ARTIFACT:VERSION...: these and what they need, through Maven; sets `jars` to their folder.
jars() {
  need java openjdk-17-jre-headless
  need javac openjdk-17-jdk-headless
  need mvn maven
  local major
  major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${major:-0}" -ge 17 ] || absent "Java ${major:-?} is too old: 17 is needed"
  jars_wanted=("${@:2}" org.slf4j:slf4j-simple:1.7.36)
  installed "$1" jars_install
  jars=$installed
}

jars_install() {
  local wanted group artifact version
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>gateway</groupId><artifactId>clients</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    for wanted in "${jars_wanted[@]}"; do
      IFS=: read -r group artifact version <<<"$wanted"
      echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
    done
    echo '</dependencies></project>'
  } >pom.xml
  # Maven's own cache is not for two at a time.
  retry flock "$CLIENTS_CACHE/maven.lock" mvn -q -B dependency:copy-dependencies -DoutputDirectory="$PWD"
}

# program FOLDER CLASS [ARGUMENT...]: compiles the sources in FOLDER against the jars and runs CLASS.
program() {
  local classes code
  classes=$(mktemp -d)
  javac -cp "$jars/*" -d "$classes" "$1"/*.java >&2 &&
    java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
      -cp "$classes:$jars/*" "${@:2}"
  code=$?
  rm -rf "$classes"
  return $code
}
