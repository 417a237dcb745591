// Package layering asserts who may import what: the layers of ARCHITECTURE.md,
// beyond what Go's internal folders can say.
package layering

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/shiplane/limits"

// services are the folders that are programs of their own. They meet through
// generated clients only.
var services = []string{"gateway", "checker", "rules", "rebalancer", "metrics"}

// rules is the list of what is forbidden. A pattern is an import path, or one
// that ends in /... for it and all below; those of this module are relative to it.
var rules = []rule{
	{
		why:  "the vocabulary and the arithmetic do no I/O and know no protocol and no store",
		of:   []string{"libs/limit/...", "libs/bucket/..."},
		deny: slices.Concat(networkAndFiles, protocols, stores, []string{"proto/..."}),
		all:  true,
	},
	{
		why:  "the data path takes matched rules and speaks no protocol",
		of:   []string{"libs/limiter/..."},
		deny: slices.Concat(protocols, stores, []string{"proto/...", "libs/ruleset/..."}),
		all:  true,
	},
	{
		why:  "the store contract knows no store",
		of:   []string{"libs/store"},
		deny: slices.Concat(networkAndFiles, protocols, stores, []string{"proto/...", "libs/store/..."}),
		all:  true,
	},
	{
		why:  "matching knows no network: the rules service is followed by feed alone",
		of:   []string{"libs/ruleset"},
		deny: slices.Concat([]string{"google.golang.org/grpc/...", "connectrpc.com/...", "libs/ruleset/feed/...", "libs/ruleset/rulesource/..."}, stores),
	},
	{
		why:    "rueidis is known to the Redis store alone, and to what starts or measures Redis",
		of:     []string{"..."},
		except: []string{"libs/store/rediscluster/...", "libs/testenv/...", "dev/...", "perf/..."},
		deny:   []string{"github.com/redis/rueidis/..."},
	},
	{
		why:    "pgx is known to the rules' tables alone, and to what starts Postgres",
		of:     []string{"..."},
		except: []string{"rules/internal/pgstore/...", "libs/testenv/...", "dev/..."},
		deny:   []string{"github.com/jackc/pgx/..."},
	},
	{
		why:    "the OpenTelemetry SDK is known to telemetry alone; everybody else takes its API",
		of:     []string{"..."},
		except: []string{"libs/telemetry/..."},
		deny:   []string{"go.opentelemetry.io/otel/sdk/...", "go.opentelemetry.io/otel/exporters/..."},
	},
	{
		why:    "AWS is known to the flags of the counters alone",
		of:     []string{"..."},
		except: []string{"libs/counters/..."},
		deny:   []string{"github.com/aws/..."},
	},
	{
		why:    "Envoy's messages are known to the checker alone, and to what measures it beside others",
		of:     []string{"..."},
		except: []string{"checker", "checker/internal/envoy/...", "perf/peers/..."},
		deny:   []string{"github.com/envoyproxy/..."},
	},
	{
		why:    "Kubernetes' types are for the tests of its manifests",
		of:     []string{"..."},
		except: []string{"infra/kubernetes/..."},
		deny:   []string{"k8s.io/...", "sigs.k8s.io/..."},
	},
	{
		why:  "a library stands below the programs",
		of:   []string{"libs/..."},
		deny: []string{"gateway/...", "checker/...", "rules/...", "rebalancer/...", "metrics/...", "client/...", "dev/...", "perf/...", "infra/...", "limitctl/...", "tools/..."},
	},
}

var (
	networkAndFiles = []string{"net", "net/http/...", "net/rpc/...", "os", "os/...", "io/ioutil", "syscall", "log", "log/slog", "database/sql/...", "golang.org/x/net/..."}
	protocols       = []string{"google.golang.org/protobuf/...", "google.golang.org/grpc/...", "connectrpc.com/..."}
	stores          = []string{"github.com/redis/...", "github.com/jackc/..."}
)

type rule struct {
	why    string
	of     []string // the packages that the rule is about
	except []string // and those of them that it is not
	deny   []string // what they must not import
	all    bool     // nor reach, through packages of this module
}

// Every package of the module keeps to the layers, its tests too.
func TestNoPackageImportsAcrossTheLayers(t *testing.T) {
	packages := load(t)
	for _, complaint := range check(packages, slices.Concat(rules, betweenServices())) {
		t.Error(complaint)
	}
}

// Each rule complains of a package that breaks it, named with what it imports;
// so a rule whose patterns match nothing cannot pass unseen.
func TestEachRuleFindsAPlantedImport(t *testing.T) {
	for _, r := range slices.Concat(rules, betweenServices()) {
		for _, of := range r.of {
			for _, deny := range r.deny {
				from, to := example(of), example(deny)
				if from == to || matches(r.except, from) {
					continue
				}
				planted := map[string]*pkg{from: {imports: []string{to}}}
				if got := check(planted, []rule{r}); len(got) != 1 {
					t.Errorf("%s: %s imports %s: got %q, want one complaint", r.why, from, to, got)
				}
				through := module + "/libs/between"
				planted[from].imports = []string{through}
				planted[through] = &pkg{imports: []string{to}}
				if got := check(planted, []rule{{why: r.why, of: []string{from}, deny: r.deny, all: r.all}}); len(got) != 1 && r.all {
					t.Errorf("%s: %s reaches %s through %s: got %q, want one complaint", r.why, from, to, through, got)
				}
			}
		}
	}
}

func betweenServices() []rule {
	var made []rule
	for _, service := range services {
		r := rule{why: "no service imports another: they meet through generated clients", of: []string{service + "/..."}}
		for _, other := range services {
			if other != service {
				r.deny = append(r.deny, other+"/...")
			}
		}
		made = append(made, r)
	}
	return made
}

// pkg is what a package's files import, whatever their build constraints.
type pkg struct {
	imports     []string
	testImports []string
}

// load reads the imports of every Go file of this module. It reads the files
// itself, and asks no go command, so that a cached result of this test is void
// when any of them changes.
func load(t *testing.T) map[string]*pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	packages := map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return add(packages, module+"/"+filepath.ToSlash(folder), path)
	})
	if err != nil {
		t.Fatal(err)
	}
	if packages[module+"/libs/limit"] == nil {
		t.Fatalf("found %d packages, and not libs/limit", len(packages))
	}
	return packages
}

func add(packages map[string]*pkg, importPath, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	p := packages[importPath]
	if p == nil {
		p = &pkg{}
		packages[importPath] = p
	}
	for _, spec := range file.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			p.testImports = append(p.testImports, to)
		} else {
			p.imports = append(p.imports, to)
		}
	}
	return nil
}

func check(packages map[string]*pkg, rules []rule) []string {
	var complaints []string
	for _, r := range rules {
		for path := range packages {
			if !matches(r.of, path) || matches(r.except, path) {
				continue
			}
			for _, found := range r.breaches(packages, path) {
				complaints = append(complaints, fmt.Sprintf("%s\n\tbut %s", r.why, found))
			}
		}
	}
	slices.Sort(complaints)
	return complaints
}

// breaches are the denied imports of a package, and what it reaches if the rule says
// so. What only its tests import is theirs: they may do I/O.
func (r rule) breaches(packages map[string]*pkg, path string) []string {
	var found []string
	seen := map[string]bool{}
	var visit func(chain string, imports []string)
	visit = func(chain string, imports []string) {
		for _, to := range imports {
			if seen[to] || to == path {
				continue
			}
			seen[to] = true
			link := chain + " -> " + strings.TrimPrefix(to, module+"/")
			if matches(r.deny, to) {
				found = append(found, link)
			} else if next := packages[to]; r.all && next != nil {
				visit(link, next.imports)
			}
		}
	}
	imports := packages[path].imports
	if !r.all {
		imports = slices.Concat(imports, packages[path].testImports)
	}
	visit(strings.TrimPrefix(path, module+"/"), imports)
	return found
}

func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = absolute(pattern)
		if below, ok := strings.CutSuffix(pattern, "/..."); ok {
			return path == below || strings.HasPrefix(path, below+"/")
		}
		return path == pattern
	})
}

// absolute puts a pattern of this module behind its path.
func absolute(pattern string) string {
	first, _, _ := strings.Cut(pattern, "/")
	ours := []string{"...", "libs", "proto", "client", "dev", "perf", "infra", "limitctl", "tools"}
	if slices.Contains(ours, first) || slices.Contains(services, first) {
		return module + "/" + pattern
	}
	return pattern
}

// example is a path that a pattern matches.
func example(pattern string) string {
	if pattern == "..." {
		return module + "/libs/httplimit"
	}
	return strings.Replace(absolute(pattern), "/...", "/v1", 1)
}
