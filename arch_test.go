package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kaen-log/gateway"

// allowed says which of our packages each package may import. Arrows point down
// only; a new package or arrow is an edit here, with its reason in the commit.
var allowed = map[string][]string{
	".":                   {"wire", "cleaner", "console", "groups", "groups/share", "storage", "storage/vfs", "txn"},
	"auth":                {},
	"cmd/gateway":         {".", "cleaner", "compare", "wire", "groups", "storage", "storage/record", "storage/vfs"},
	"compare":             {"storage/record"},
	"wire":                {"auth", "groups", "groups/share", "storage", "storage/record", "storage/vfs", "txn"},
	"cleaner":             {"storage", "storage/record"},
	"console":             {"wire", "cleaner", "groups", "storage", "txn"}, // only their snapshots
	"groups":              {"groups/assignor", "groups/runtime", "storage", "storage/record"},
	"groups/assignor":     {"storage"},
	"groups/runtime":      {"storage", "storage/record"},
	"groups/share":        {"groups/runtime", "storage", "storage/record"},
	"storage":             {"auth", "storage/record", "storage/vfs"},
	"storage/record":      {},
	"storage/vfs":         {},
	"storage/vfs/vfstest": {"storage/vfs"},
	"txn":                 {"groups/runtime", "storage", "storage/record"},
	"compat_test":         {},
}

// mayUse says where else than everywhere a package or function may be used, in
// files that are not tests.
var mayUse = map[string]func(pkg, file string) bool{
	// Data files are touched through vfs only.
	"os": func(pkg, _ string) bool {
		return slices.Contains([]string{".", "cmd/gateway", "compare", "storage/vfs", "storage/vfs/vfstest", "compat_test"}, pkg)
	},
	// What decides by time takes the time as an argument.
	"time.Now": func(pkg, file string) bool {
		return slices.Contains([]string{".", "cmd/gateway", "compare", "storage/vfs", "storage/vfs/vfstest"}, pkg) || file == "wire/conn.go" || file == "wire/stall.go"
	},
	"time.Sleep": func(string, string) bool { return false },
	// The protocol's messages and errors exist in wire; clients use what they like.
	kmsgPath: func(pkg, _ string) bool { return slices.Contains([]string{"wire", "cmd/gateway", "compare"}, pkg) },
	kerrPath: func(pkg, _ string) bool { return slices.Contains([]string{"wire", "cmd/gateway", "compare"}, pkg) },
}

const (
	kmsgPath = "github.com/twmb/franz-go/pkg/kmsg"
	kerrPath = "github.com/twmb/franz-go/pkg/kerr"
)

// storedRecords are the kmsg types that groups may use: what it stores in its log.
var storedRecords = []string{"OffsetCommitKey", "OffsetCommitValue", "GroupMetadataKey", "GroupMetadataValue", "GroupMetadataValueMember", "ConsumerMemberMetadata", "ConsumerMemberAssignment", "ConsumerMemberAssignmentTopic"}

// ofTheProcess are the package variables that may change, because what they hold belongs to the whole process.
var ofTheProcess = []string{
	"storage/vfs.osLocks", // record locks of the operating system
}

// source is one Go file of the tree.
type source struct {
	name string // slash path from the root
	pkg  string // its directory
	test bool
	file *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "gateway-data") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); d.IsDir() && name != "." && err == nil {
			return filepath.SkipDir // a module of its own
		}
		if d.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		out = append(out, source{name: slash, pkg: path.Dir(slash), test: strings.HasSuffix(base, "_test.go"), file: f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("found %d Go files, want the whole tree", len(out))
	}
	return out
}

// imports maps the local name of each import of f to its path.
func imports(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, s := range f.Imports {
		p := strings.Trim(s.Path.Value, `"`)
		name := path.Base(p)
		if s.Name != nil {
			name = s.Name.Name
		}
		out[name] = p
	}
	return out
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		down, known := allowed[s.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the table of allowed imports", s.name, s.pkg)
			continue
		}
		if s.test && s.pkg != "compat_test" {
			continue
		}
		for _, p := range imports(s.file) {
			ours, ok := strings.CutPrefix(p, module)
			if !ok {
				continue
			}
			ours = strings.TrimPrefix(ours, "/")
			if ours == "" {
				ours = "."
			}
			if !slices.Contains(down, ours) {
				t.Errorf("%s imports %s; %s may import %v", s.name, ours, s.pkg, down)
			}
		}
	}
}

func TestWhereTimeFilesAndProtocolMayStand(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		names := imports(s.file)
		for _, p := range names {
			if ok := mayUse[p]; ok != nil && !ok(s.pkg, s.name) && !(p == kmsgPath && s.pkg == "groups") {
				t.Errorf("%s imports %s", s.name, p)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			p := names[x.Name]
			if ok := mayUse[p+"."+sel.Sel.Name]; ok != nil && !ok(s.pkg, s.name) {
				t.Errorf("%s uses %s.%s", s.name, p, sel.Sel.Name)
			}
			if p == kmsgPath && s.pkg == "groups" && !slices.Contains(storedRecords, strings.TrimPrefix(sel.Sel.Name, "New")) {
				t.Errorf("%s uses kmsg.%s; groups may use stored records only: %v", s.name, sel.Sel.Name, storedRecords)
			}
			return true
		})
	}
}

func TestNoInitAndEveryPackageHasAComment(t *testing.T) {
	commented := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has a func init", s.name)
			}
		}
		commented[s.pkg] = commented[s.pkg] || s.file.Doc != nil
	}
	for pkg, ok := range commented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// TestPackageVariablesStayAsTheyBegan looks for assignments to package variables: state belongs to values that somebody
// makes, and registries are literal tables. A name that is declared in the function hides the variable.
func TestPackageVariablesStayAsTheyBegan(t *testing.T) {
	variables := map[string]map[string]bool{} // by package
	for _, s := range sources(t) {
		if variables[s.pkg] == nil {
			variables[s.pkg] = map[string]bool{}
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR || s.test {
				continue
			}
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					variables[s.pkg][name.Name] = true
				}
			}
		}
	}
	found := 0
	for _, s := range sources(t) {
		found += len(variables[s.pkg])
		if s.test {
			continue
		}
		for _, name := range assigned(s.file) {
			if variables[s.pkg][name] && !slices.Contains(ofTheProcess, s.pkg+"."+name) {
				t.Errorf("%s assigns the package variable %s", s.name, name)
			}
		}
	}
	if found == 0 {
		t.Error("found no package variables, want those of wire")
	}
}

// assigned returns the names that the functions of a file assign and do not declare.
func assigned(f *ast.File) []string {
	var out []string
	target := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
				continue
			case *ast.SelectorExpr:
				e = x.X
				continue
			case *ast.StarExpr:
				e = x.X
				continue
			case *ast.ParenExpr:
				e = x.X
				continue
			case *ast.Ident:
				local := false
				if x.Obj != nil { // resolved in this file
					_, ok := x.Obj.Decl.(*ast.ValueSpec)
					local = !ok || f.Scope.Lookup(x.Name) != x.Obj
				}
				if !local && x.Name != "_" {
					out = append(out, x.Name)
				}
			}
			return
		}
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						target(e)
					}
				}
			case *ast.IncDecStmt:
				target(n.X)
			}
			return true
		})
	}
	return out
}

// TestEveryDomainErrorIsMapped looks for each exported Err… of the packages below
// wire in wire/errors.go, where it is mapped to a Kafka code or listed as never
// reaching a client.
func TestEveryDomainErrorIsMapped(t *testing.T) {
	text, err := os.ReadFile("wire/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range sources(t) {
		if s.test || !slices.Contains([]string{"storage", "storage/record", "groups", "groups/runtime", "groups/share", "txn"}, s.pkg) {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if !strings.HasPrefix(name.Name, "Err") {
						continue
					}
					found++
					if q := path.Base(s.pkg) + "." + name.Name; !strings.Contains(string(text), q) {
						t.Errorf("%s is not in wire/errors.go", q)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("found no exported errors, want those of storage")
	}
}
