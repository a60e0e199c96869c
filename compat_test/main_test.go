// Package compat_test builds the gateway's binary once and speaks to it as its
// users do: real clients (franz-go, kadm) and raw requests at chosen versions.
// Cases that were met in the field bear their id in the subtest's name.
//
// With GATEWAY_COMPAT_ADDR=HOST:PORT the tests that need no broker of their own
// run against the broker at that address instead; an Apache Kafka there shows
// whether what the tests expect is what Kafka does.
package compat_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// addrVariable names the environment variable that replaces the broker.
const addrVariable = "GATEWAY_COMPAT_ADDR"

// argsVariable names the environment variable that says which arguments of a test
// the broker at that address was configured to match.
const argsVariable = "GATEWAY_COMPAT_ARGS"

// buildFlagsVariable names the environment variable with more flags for the build
// of the gateway, such as -race.
const buildFlagsVariable = "GATEWAY_COMPAT_BUILDFLAGS"

// rounds is how often the kill loops kill: a handful in a usual run, hundreds by
// hand and in CI.
var rounds = flag.Int("rounds", 5, "rounds of the kill -9 loops")

// gatewayPath is the gateway under test; set by TestMain before any test runs.
var gatewayPath string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

// buildAndRun has the deferred clean-up that os.Exit would skip.
func buildAndRun(m *testing.M) int {
	if os.Getenv(addrVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "gateway-compat-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	gatewayPath = filepath.Join(dir, "gateway")
	if runtime.GOOS == "windows" {
		gatewayPath += ".exe"
	}
	args := append([]string{"build", "-o", gatewayPath}, strings.Fields(os.Getenv(buildFlagsVariable))...)
	build := exec.Command("go", append(args, "./cmd/gateway")...)
	build.Dir = ".."
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build ./cmd/gateway:", err)
		return 1
	}
	return m.Run()
}

// waitLimit bounds every wait of a test on a condition.
const waitLimit = time.Minute

// within returns a context that ends with the test, or after waitLimit.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}
