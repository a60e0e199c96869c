# How the results of a run are shown; sourced by run. All read $results: client, version, feature, result and reason, by
# tabs, a line for each client and feature.

# lists prints the lists of features that clients of this run go by.
lists() {
  local client
  for client in $(cut -f 1 "$results" | uniq); do features_of "$client"; done | awk '!seen[$0]++'
}

# results_of LIST: those of the clients that go by it.
results_of() {
  local line
  while IFS= read -r line; do # whole, for one that is absent has an empty version
    [ "$(features_of "${line%%$'\t'*}")" != "$1" ] || echo "$line"
  done <"$results"
}

# table prints clients by number and feature by client, for each list of features; then why what did not pass did not.
table() {
  local list between=''
  for list in $(lists); do
    printf '%s' "$between"
    results_of "$list" | matrix
    between=$'\n'
  done
  reasons | awk -F '\t' 'NR == 1 { print "" } { print $2 ": " $1 ($2 == "absent" ? "" : ", " $3) ": " $4 }'
}

matrix() {
  awk -F '\t' '
    !($1 in number) { number[$1] = ++n; client[n] = $1; version[n] = $2 }
    !($3 in row) { row[$3] = ++m; feature[m] = $3 }
    { cell[$3, $1] = $4 }
    END {
      for (i = 1; i <= n; i++) printf "%2d  %s %s\n", i, client[i], version[i]
      printf "\n%-24s", ""; for (i = 1; i <= n; i++) printf "%7d", i; print ""
      for (j = 1; j <= m; j++) {
        printf "%-24s", feature[j]
        for (i = 1; i <= n; i++) {
          c = cell[feature[j], client[i]]
          printf "%7s", (c == "unsupported" ? "-" : c == "pending" ? "." : c == "fail" ? "FAIL" : c)
        }
        print ""
      }
    }'
}

# reasons prints what did not pass: client, result, features and reason, by tabs; one line for all features that share
# the rest.
reasons() {
  awk -F '\t' -v OFS='\t' '
    $4 != "pass" {
      k = $1 FS $4 FS $5
      if (!(k in features)) { order[++n] = k; features[k] = $3 } else { features[k] = features[k] ", " $3 }
    }
    END {
      for (i = 1; i <= n; i++) {
        split(order[i], p, FS)
        print p[1], p[2], features[order[i]], p[3]
      }
    }' "$results"
}

as_json() {
  awk -F '\t' '
    function quoted(s) { gsub(/\\/, "\\\\&", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
    BEGIN { print "[" }
    {
      printf "%s  {\"client\": %s, \"version\": %s, \"feature\": %s, \"result\": %s, \"reason\": %s}", (NR > 1 ? ",\n" : ""),
        quoted($1), quoted($2), quoted($3), quoted($4), quoted($5)
    }
    END { print "\n]" }' "$results"
}

page_matrix() {
  awk -F '\t' '
    !($1 in number) { number[$1] = ++n; client[n] = $1 }
    !($3 in row) { row[$3] = ++m; feature[m] = $3 }
    { cell[$3, $1] = ($4 == "unsupported" ? "-" : $4 == "pending" ? "." : $4 == "fail" ? "**FAIL**" : $4) }
    END {
      printf "| |"; for (i = 1; i <= n; i++) printf " %s |", client[i]; printf "\n| --- |"
      for (i = 1; i <= n; i++) printf " --- |"; print ""
      for (j = 1; j <= m; j++) {
        printf "| %s |", feature[j]; for (i = 1; i <= n; i++) printf " %s |", cell[feature[j], client[i]]; print ""
      }
    }'
}

# as_page prints docs/clients.md.
as_page() {
  cat <<'P'
# Clients

What the clients of others do with a gateway: this page is the result of a run of their programs in
`compat_test/clients`, made by

```
compat_test/clients/run --page docs/clients.md
```

`-` is what the client has no call for, `.` what its program here does not show yet; below is what that is. Each program
passes against Apache Kafka 4.4.0 too, by `compat_test/clients/run -a HOST:PORT`.

## Versions

[compat_test/clients](../compat_test/clients/README.md) says what each of them is; `franz-go-oldest` is franz-go held to
the versions of Kafka 1.1.

P
  awk -F '\t' '
    BEGIN { print "| client | version |"; print "| --- | --- |" }
    !seen[$1]++ { printf "| [%s](../compat_test/clients/%s) | %s |\n", $1, $1, $2 }' "$results"
  local list of title showing
  for list in $(lists); do
    of=$(dirname "$list") title='Features' showing='What a client has to show'
    [ "$of" = "$here" ] || title="Features of $(basename "$of")" showing="What $(basename "$of") has to show"
    printf '\n## %s\n\n' "$title"
    results_of "$list" | page_matrix
    printf '\n## %s\n\n| feature | |\n| --- | --- |\n' "$showing"
    sed 's/^\([^ ]*\) *\(.*\)/| \1 | \2 |/' "$list"
  done
  if reasons | grep -q .; then
    printf '\n## What did not pass\n\n| client | features | result | why |\n| --- | --- | --- | --- |\n'
    reasons | awk -F '\t' '{ gsub(/\|/, "\\|"); printf "| %s | %s | %s | %s |\n", $1, $3, $2, $4 }'
  fi
}

# differences PAGE prints where PAGE says otherwise than these results of a client that is there, and fails if anywhere.
# kcat's version is Debian's: where it is another, what it can do may be too.
differences() {
  awk -F '\t' '
    FNR == NR { page[$1, $2] = $3; next }
    $4 == "absent" { next }
    $1 == "kcat" && page[$1, "version"] != $2 { next }
    !seen[$1]++ && page[$1, "version"] != $2 { bad = 1; print $1 ": version " $2 ", on the page " page[$1, "version"] }
    page[$1, $3] != $4 { bad = 1; print $1 ": " $3 ": " $4 ", on the page " page[$1, $3] }
    END { exit bad }' <(page_cells "$1") "$results" && return
  echo "$1 says otherwise than this run; write it anew: compat_test/clients/run --page docs/clients.md"
  return 1
}

# page_cells PAGE prints what a page says: client, feature or "version", and the result or the version, by tabs.
page_cells() {
  awk -F ' *[|] *' -v OFS='\t' '
    /^[|] \[/ { name = $2; gsub(/^\[|\].*/, "", name); print name, "version", $3 }
    /^[|] [|]/ { for (i = 3; i < NF; i++) client[i] = $i; n = NF; next }
    !/^[|]/ { n = 0 }
    n && !/---/ { for (i = 3; i < n; i++) print client[i], $2, ($i == "-" ? "unsupported" : $i == "." ? "pending" : $i == "**FAIL**" ? "fail" : $i) }' "$1"
}
