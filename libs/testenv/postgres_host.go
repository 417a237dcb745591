package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// postgresEnd is what an immediate shutdown may take. Postgres gives its own
// children 5 s of it.
const postgresEnd = 10 * time.Second

// postgresVersions is where Debian keeps the programs of each version.
const postgresVersions = "/usr/lib/postgresql/*/bin/initdb"

// postgresPrograms returns the folder of initdb, postgres and pg_isready: that of
// the initdb in PATH, wherever its link leads to, else Debian's newest.
func postgresPrograms() (string, error) {
	found, err := filepath.Glob(postgresVersions)
	if err != nil {
		return "", err
	}
	if inPath, err := exec.LookPath("initdb"); err == nil {
		found = []string{inPath}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("initdb is neither in PATH nor %s: install the package postgresql", postgresVersions)
	}
	newest, err := filepath.EvalSymlinks(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(newest)
	for _, program := range []string{"postgres", "pg_isready"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return "", fmt.Errorf("beside initdb: %w", err)
		}
	}
	return dir, nil
}

// version is the number in /usr/lib/postgresql/15/bin/initdb, 0 if there is none.
func version(path string) int {
	number, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return number
}

// unprivileged returns whom Postgres runs as: nil for this process's user, and
// for root, which initdb refuses, postgres or nobody.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var failures []error
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("postgres does not run as root: %w", errors.Join(failures...))
}
