// Package docker holds the images' Dockerfile, and checks what can be checked of it
// without a container engine: how its stages are made, that what it copies is all
// that the services are compiled from, and that its own build line compiles them for
// both architectures.
package docker

import (
	"debug/elf"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const root = "../.." // of the repository: the build's context

// ports are what each service listens on by default, the admin port last.
var ports = map[string]string{"gateway": "8080 9080", "checker": "8081 8085 9081", "rules": "8082 9082"}

// The images are small, run as a user that is not root, and pin what they are made from.
func TestImagesAreAsTheyMustBe(t *testing.T) {
	for _, fault := range faults(read(t, "Dockerfile"), goVersion(t)) {
		t.Error(fault)
	}
}

// Every demand on the Dockerfile is broken once, and found.
func TestEachPlantedFaultIsFound(t *testing.T) {
	text, version := read(t, "Dockerfile"), goVersion(t)
	for _, c := range []struct{ old, put, want string }{
		{"GO_IMAGE=docker.io/library/golang:1.26.8-trixie\n", "GO_IMAGE=docker.io/library/golang:latest\n", `GO_IMAGE: "docker.io/library/golang:latest"`},
		{"GO_IMAGE=docker.io/library/golang:1.26.8-trixie\n", "GO_IMAGE=docker.io/library/golang:1.25.0-trixie\n", "MODULE.bazel"},
		{"static-debian13:nonroot", "static-debian13", `BASE_IMAGE: "gcr.io/distroless/static-debian13"`},
		{"gcr.io/distroless/static-debian13:nonroot", "docker.io/library/debian:13", "distroless"},
		{"FROM ${BASE_IMAGE} AS base", "FROM docker.io/library/alpine:3 AS base", "not made from BASE_IMAGE"},
		{"--platform=$BUILDPLATFORM ", "", "emulation"},
		{"USER 65532:65532\n", "", "no USER"},
		{"USER 65532:65532", "USER 0:0", `USER "0:0"`},
		{"USER 65532:65532", "USER nonroot", `USER "nonroot"`},
		{"CGO_ENABLED=0 ", "", "CGO_ENABLED=0"},
		{"-trimpath ", "", "-trimpath"},
		{"GOARCH=$TARGETARCH", "GOARCH=amd64", "GOARCH=$TARGETARCH"},
		{"ARG TARGETARCH\n", "", "ARG TARGETARCH"},
		{"--mount=type=cache,target=/root/.cache/go-build", "", "go-build"},
		{"./rules/cmd/rules", "./rules/cmd/rule", "rules is not built"},
		{"/out/checker /checker", "/out/gateway /checker", "checker: COPY"},
		{`ENTRYPOINT ["/rules"]`, "ENTRYPOINT /rules", "rules: ENTRYPOINT"},
		{"EXPOSE 8081 8085 9081", "EXPOSE 8081 9081", "checker: EXPOSE"},
		{"# Callers; admin.", "RUN true", "gateway: RUN"},
		{" AS rules", "", "no stage rules"},
		{`org.opencontainers.image.title="Shiplane Limits: rules"`, `x="y"`, "rules: it has no label org.opencontainers.image.title"},
		{`org.opencontainers.image.licenses="Apache-2.0"`, `x="y"`, "no label org.opencontainers.image.licenses"},
	} {
		if !strings.Contains(text, c.old) {
			t.Errorf("%q is not there to be replaced", c.old)
			continue
		}
		got := strings.Join(faults(strings.Replace(text, c.old, c.put, 1), version), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%q for %q: want a fault with %q, got\n%s", c.put, c.old, c.want, got)
		}
	}
}

var (
	image  = regexp.MustCompile(`^[a-z0-9.]+(/[a-z0-9-]+)+:([a-z0-9.-]+)(@sha256:[0-9a-f]{64})?$`)
	number = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)
)

// faults tells what is wrong with a Dockerfile. goVersion is the Go that the
// repository is built with elsewhere.
func faults(text, goVersion string) (found []string) {
	fault := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	f := parse(text)
	for _, arg := range []string{"GO_IMAGE", "BASE_IMAGE"} {
		if tag := image.FindStringSubmatch(f.args[arg]); tag == nil || tag[2] == "latest" {
			fault("%s: %q: want HOST/NAME:TAG, a tag other than latest", arg, f.args[arg])
		}
	}
	if want := "/golang:" + goVersion + "-"; !strings.Contains(f.args["GO_IMAGE"], want) {
		fault("GO_IMAGE: %q: MODULE.bazel has Go %s", f.args["GO_IMAGE"], goVersion)
	}
	if !strings.Contains(f.args["BASE_IMAGE"], "/distroless/static-") {
		fault("BASE_IMAGE: %q: want distroless static: certificates and no shell", f.args["BASE_IMAGE"])
	}
	build := f.stage("build")
	if build == nil || build.from != "--platform=$BUILDPLATFORM ${GO_IMAGE}" {
		fault("the stage build is not made from GO_IMAGE on the machine that builds: it would run in an emulation")
	}
	line := buildLine(f)
	for _, want := range []string{"CGO_ENABLED=0", "GOOS=$TARGETOS", "GOARCH=$TARGETARCH", " -trimpath ", "target=/go/pkg/mod", "target=/root/.cache/go-build"} {
		if !strings.Contains(line, want) {
			fault("the build line lacks %s", want)
		}
	}
	for _, want := range []string{"TARGETOS", "TARGETARCH"} {
		if !slices.Contains(f.all(build, "ARG"), want) {
			fault("the stage build lacks ARG %s", want)
		}
	}
	for service := range ports {
		found = append(found, imageFaults(f, service, line)...)
	}
	return found
}

// imageFaults tells what is wrong with the image of a service.
func imageFaults(f *file, service, line string) (found []string) {
	fault := func(format string, args ...any) { found = append(found, service+": "+fmt.Sprintf(format, args...)) }
	s := f.stage(service)
	if s == nil {
		return []string{"there is no stage " + service}
	}
	if f.stage(s.from) == nil || f.stage(s.from).from != "${BASE_IMAGE}" {
		fault("it is not made from BASE_IMAGE")
	}
	if !slices.Contains(strings.Fields(line), "./"+service+"/cmd/"+service) {
		fault("%s is not built", service)
	}
	if users := f.all(s, "USER"); len(users) == 0 {
		fault("it has no USER")
	} else if last := users[len(users)-1]; !number.MatchString(last) {
		fault("USER %q: want numbers, not 0", last)
	}
	for kind, want := range map[string][]string{
		"COPY":       {fmt.Sprintf("--from=build --chmod=0555 /out/%s /%s", service, service)},
		"ENTRYPOINT": {fmt.Sprintf(`["/%s"]`, service)},
		"EXPOSE":     {ports[service]},
		"RUN":        nil, // there is no shell to run it
		"CMD":        nil,
		"VOLUME":     nil,
		"ADD":        nil,
	} {
		if got := f.all(s, kind); !slices.Equal(got, want) {
			fault("%s is %q, want %q", kind, got, want)
		}
	}
	labels := strings.Join(f.all(s, "LABEL"), " ")
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(labels, "org.opencontainers.image."+label+"=") {
			fault("it has no label org.opencontainers.image.%s", label)
		}
	}
	return found
}

// What .dockerignore leaves holds every file that the build line needs, for both
// architectures. With -compile the line itself is run there.
func TestBuildLineHasAllThatItNeeds(t *testing.T) {
	context := t.TempDir()
	copyContext(t, context)
	line := regexp.MustCompile(`--mount=\S+`).ReplaceAllString(buildLine(parse(read(t, "Dockerfile"))), "")
	packages := strings.Join(regexp.MustCompile(`\./\S+`).FindAllString(line, -1), " ")
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		run := func(command string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir, cmd.Env = context, append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+arch)
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %s: %v\n%s", arch, command, err, text)
			}
		}
		run("CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go list -mod=readonly -deps -f {{.EmbedFiles}} " + packages)
		if !*compile {
			continue
		}
		out := t.TempDir()
		run(strings.ReplaceAll(line, "/out/", out+"/"))
		for service := range ports {
			checkBinary(t, filepath.Join(out, service), machine)
		}
	}
}

// compile has the build line run, which takes minutes where nothing is cached.
var compile = flag.Bool("compile", false, "run the Dockerfile's build line for linux/amd64 and linux/arm64")

// checkBinary sees that a program is for the machine, and needs no library.
func checkBinary(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	binary, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if libraries, err := binary.ImportedLibraries(); binary.Machine != machine || len(libraries) > 0 || err != nil {
		t.Errorf("%s: is for %v and needs %q (%v), want %v and nothing", path, binary.Machine, libraries, err, machine)
	}
}

// buildLine returns the RUN that compiles.
func buildLine(f *file) string {
	for _, line := range f.all(f.stage("build"), "RUN") {
		if strings.Contains(line, "go build") {
			return line
		}
	}
	return ""
}

// copyContext copies what a build would be sent, as .dockerignore says.
func copyContext(t *testing.T, to string) {
	t.Helper()
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, root+"/.dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		skip, err := ignored.MatchesOrParentMatches(path)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if skip && path != "." && !strings.Contains(path, "/") {
				return fs.SkipDir // nothing is let in again below the first level
			}
			return nil
		case skip:
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(path)), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goVersion is the Go that MODULE.bazel downloads.
func goVersion(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`go_sdk\.download\(version = "([0-9.]+)"\)`).FindStringSubmatch(read(t, root+"/MODULE.bazel"))
	if found == nil {
		t.Fatal("MODULE.bazel names no version of Go")
	}
	return found[1]
}
