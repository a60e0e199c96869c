package compare_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKafkaRunSaysWhatIsMissing starts Kafka on machines without Java, with an old one, and without Maven, which are
// this one with what the script finds on its way chosen.
func TestKafkaRunSaysWhatIsMissing(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	java := func(version string) map[string]string {
		return map[string]string{"java": "#!" + shell + "\necho 'openjdk version \"" + version + "\"' >&2\n"}
	}
	for _, c := range []struct {
		what  string
		tools map[string]string // name to text
		args  []string
		want  string
	}{
		{"no Java", nil, nil, "Java is missing; install version 17 or newer"},
		{"an old Java", java("11.0.2"), nil, "Java 11 is too old"},
		{"no Maven", java("17.0.15"), nil, "Maven is missing; install it"},
		{"no Maven, another version", java("21"), []string{"--version", "4.0.2"}, "Maven is missing; install it"},
		{"a version without KRaft of today", java("21"), []string{"--version", "3.9.1"}, "version 3.9.1: want 4.0.0 to 4.4.0"},
		{"a version that is none", java("21"), []string{"--version", "4.5.0"}, "version 4.5.0: want 4.0.0 to 4.4.0"},
	} {
		bin, dir := t.TempDir(), t.TempDir()
		for _, name := range []string{"sed", "head", "cat", "grep", "mkdir", "mktemp", "mv", "rm", "touch", "seq", "sleep", "setsid"} {
			if found, err := exec.LookPath(name); err == nil {
				if err := os.Symlink(found, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, text := range c.tools {
			if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), shell, append([]string{"kafka/run", "start", "--port", "29998", "--dir", filepath.Join(dir, "kafka")}, c.args...)...)
		cmd.Env = []string{"PATH=" + bin, "HOME=" + dir, "XDG_CACHE_HOME=" + dir, "TMPDIR=" + dir}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: got %v and %q, want exit code 3 and %q", c.what, err, out, c.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("%s: left %v behind", c.what, left)
		}
	}
}

// TestKafkaRunTouchesNoDirectoryOfOthers points start and clean at a folder with a broker's config in it.
func TestKafkaRunTouchesNoDirectoryOfOthers(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	if err := exec.Command("grep", "--version").Run(); err != nil {
		t.Skip("no grep")
	}
	dir := t.TempDir()
	theirs := filepath.Join(dir, "server.properties")
	const text = "log.dirs=/var/lib/kafka\n"
	if err := os.WriteFile(theirs, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir() // in which everything is fetched
	if err := os.MkdirAll(filepath.Join(cache, "gateway", "kafka-4.4.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cache, "gateway", "kafka-4.4.0", "complete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "java"), []byte("#!"+shell+"\necho 'openjdk version \"21\"' >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"start": "holds what this script did not make", "clean": "is not removed"} {
		cmd := exec.CommandContext(t.Context(), shell, "kafka/run", command, "--dir", dir)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %v and %q, want exit code 3 and %q", command, err, out, want)
		}
		if got, err := os.ReadFile(theirs); err != nil || string(got) != text {
			t.Errorf("%s: the config is %q, %v now, want %q", command, got, err, text)
		}
	}
}
