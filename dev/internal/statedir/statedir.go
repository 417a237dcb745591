// Package statedir is the folder of a running system: one owner at a time, and
// nothing of it once the owner has ended in order. Of one that was killed, the next
// one clears what is left.
package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrRunning says that another process owns the folder.
var ErrRunning = errors.New("it is running already")

// recordFile names the owner, and by being there says that a folder is such a one.
const recordFile = "owner.json"

// folderMode lets Postgres' user enter, if root starts it; what lies inside has
// modes of its own.
const folderMode = 0o711

// Dir is a folder that this process owns, from Open to Remove.
type Dir struct {
	path string
	held *os.File // with the lock, which ends with the process
}

// Open makes the folder, or takes one whose owner is gone, and empties it with
// clear, which is given each entry. The error is ErrRunning while somebody owns it,
// and names a folder that holds something else.
func Open(path string, clear func(entry string) error) (*Dir, error) {
	for {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		d, err := take(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // its owner removed it meanwhile
		}
		if err != nil {
			return nil, err
		}
		if err := d.begin(clear); err != nil {
			return nil, errors.Join(err, d.held.Close())
		}
		return d, nil
	}
}

// take locks the folder itself: a lock file would have to be left behind.
func take(path string) (*Dir, error) {
	held, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err // a link among them: it could lead into another's folder
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrRunning
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), held.Close())
	}
	d := &Dir{path: path, held: held}
	there, err := os.Lstat(path)
	mine, mineErr := held.Stat()
	switch {
	case err != nil || mineErr != nil:
		err = errors.Join(err, mineErr)
	case !os.SameFile(there, mine):
		err = os.ErrNotExist
	case there.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()):
		err = fmt.Errorf("%s belongs to another user", path)
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return d, nil
}

// begin empties the folder and records this process as its owner.
func (d *Dir) begin(clear func(string) error) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(d.path, recordFile)); err != nil {
			return fmt.Errorf("%s is not empty, and what it holds was not made by this program", d.path)
		}
		if err := EndAll(d.path); err != nil {
			return err
		}
		if err := d.empty(entries, clear); err != nil {
			return err
		}
	}
	if err := os.Chmod(d.path, folderMode); err != nil {
		return err
	}
	self, err := Self()
	if err != nil {
		return err
	}
	text, err := json.Marshal(self)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.path, recordFile), text, 0o600)
}

// empty removes all entries, the record last: until then the folder is known.
func (d *Dir) empty(entries []os.DirEntry, clear func(string) error) error {
	for _, entry := range entries {
		if entry.Name() == recordFile {
			continue
		}
		if err := clear(filepath.Join(d.path, entry.Name())); err != nil {
			return err
		}
	}
	return os.Remove(filepath.Join(d.path, recordFile))
}

// Path is the folder's.
func (d *Dir) Path() string { return d.path }

// Remove removes the folder with all that is in it, and lets go of it. What cannot be
// removed keeps the record, so that the next one clears it.
func (d *Dir) Remove() error {
	err := d.removeAll()
	return errors.Join(err, d.held.Close())
}

func (d *Dir) removeAll() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	if err := d.empty(entries, os.RemoveAll); err != nil {
		return err
	}
	return os.Remove(d.path)
}

// Owner returns who owned the folder last; os.ErrNotExist if nobody did.
func Owner(path string) (Process, error) {
	text, err := os.ReadFile(filepath.Join(path, recordFile))
	if err != nil {
		return Process{}, err
	}
	var p Process
	if err := json.Unmarshal(text, &p); err != nil {
		return Process{}, fmt.Errorf("%s: %w", recordFile, err)
	}
	return p, nil
}
