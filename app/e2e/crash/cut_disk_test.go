package crash_test

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// disk is what is on the disk of a process at a line of its trace, and what a power cut may leave of
// that.
//
// It promises what POSIX does: a sync of a file keeps its bytes and its size, a sync of a folder the
// names in it. Of what was not synced any part may be lost. A sector of a file is as it was after any
// of the writes to it since then, whatever the others are. A file that has become longer may be as
// short as before, or have zeros, other bytes, or what it once had there. A truncation may be lost.
// Names change in the order of the calls, as in the journal of a file system. A sync that has failed
// keeps nothing: what was written before may be lost for good, although the next sync succeeds, as on
// Linux.
type disk struct {
	root string
	// files are those that the process sees, and kept those that a cut leaves.
	files, kept map[string]*inode
	// names are the changes of names since they were synced.
	names []renaming
	// unsynced is a file or folder whose syncs are ignored, to show that they are needed.
	unsynced string
}

// inode is a file, whatever its name.
type inode struct {
	// now is what the process sees, synced what a cut leaves at least, and since the changes since then.
	now, synced []byte
	since       []change
	// former has the bytes that the file once had behind its end.
	former []byte
}

// change is a write, or a change of the size if data is nil.
type change struct {
	end  int // the line at which the call has returned
	at   int64
	data []byte
}

// renaming gives a file another name, or a first one if from is empty, or none if to is.
type renaming struct {
	end      int
	from, to string
	file     *inode
}

func (r renaming) apply(to map[string]*inode) {
	delete(to, r.from)
	if r.to != "" {
		to[r.to] = r.file
	}
}

func (c change) apply(content []byte) []byte {
	if c.data == nil {
		return resized(content, int(c.at))
	}
	if end := int(c.at) + len(c.data); end > len(content) {
		content = resized(content, end)
	}
	copy(content[c.at:], c.data)
	return content
}

// resized returns the content with another length, filled up with zeros.
func resized(content []byte, size int) []byte {
	if size <= len(content) {
		return content[:size]
	}
	return append(content, make([]byte, size-len(content))...)
}

// newDisk returns a disk on which a folder is empty.
func newDisk(root string) *disk {
	return &disk{root: root + "/", files: make(map[string]*inode), kept: make(map[string]*inode)}
}

// readDisk returns a disk that has kept all files that are in a folder now.
func readDisk(t *testing.T, root string) *disk {
	t.Helper()
	d := newDisk(root)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		d.files[path] = &inode{now: content, synced: bytes.Clone(content)}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d.kept = maps.Clone(d.files)
	return d
}

// call applies a call when it begins, but for a sync, which is applied when it ends.
func (d *disk) call(t *testing.T, c *traceCall) {
	t.Helper()
	if !c.ok() {
		return
	}
	switch c.name {
	case "write":
		if f := d.files[c.file(0)]; f != nil { // at its end, as checkNow shows
			f.change(change{c.end, int64(len(f.now)), c.bytes(1)})
		}
	case "pwrite64":
		if f := d.files[c.file(0)]; f != nil {
			f.change(change{c.end, c.number(3), c.bytes(1)})
		}
	case "ftruncate":
		if f := d.files[c.file(0)]; f != nil {
			f.change(change{c.end, c.number(1), nil})
		}
	case "open", "openat":
		n := 0
		if c.name == "openat" {
			n = 1
		}
		path, flags := c.path(n), c.args[n+1]
		switch f := d.files[path]; {
		case !strings.HasPrefix(path, d.root):
		case f == nil && strings.Contains(flags, "O_CREAT"):
			d.rename(renaming{c.end, "", path, new(inode)})
		case f != nil && strings.Contains(flags, "O_TRUNC"):
			f.change(change{c.end, 0, nil})
		}
	case "rename", "renameat", "renameat2":
		n := 0
		if c.name != "rename" {
			n = 1
		}
		from, to := c.path(n), c.path(2*n+1)
		if f := d.files[from]; f != nil {
			d.rename(renaming{c.end, from, to, f})
		}
	case "link", "linkat":
		n := 0
		if c.name == "linkat" {
			n = 1
		}
		if f := d.files[c.path(n)]; f != nil { // which has both names from now on
			d.rename(renaming{c.end, "", c.path(2*n + 1), f})
		}
	case "unlink", "unlinkat":
		n := 0
		if c.name == "unlinkat" {
			n = 1
		}
		path := c.path(n)
		if f := d.files[path]; f != nil {
			d.rename(renaming{c.end, path, "", f})
		}
	case "fsync", "fdatasync":
	default:
		if slices.ContainsFunc(c.args, func(arg string) bool { return strings.Contains(unhex(arg), d.root) }) {
			t.Errorf("the trace has a %s, of which this disk knows nothing", c.name)
		}
	}
}

// change applies a change to what the process sees.
func (f *inode) change(c change) {
	if c.data == nil && int(c.at) < len(f.now) {
		f.former = append(f.former[:min(len(f.former), int(c.at))], f.now[min(len(f.former), int(c.at)):]...)
	}
	f.now = c.apply(f.now)
	f.since = append(f.since, c)
}

// rename applies a change of names to what the process sees.
func (d *disk) rename(r renaming) {
	r.apply(d.files)
	d.names = append(d.names, r)
}

// synced applies the end of a sync. What had ended before it began is kept.
func (d *disk) synced(rng *rand.Rand, c *traceCall) {
	path := c.file(0)
	if path == d.unsynced {
		return
	}
	if f := d.files[path]; f != nil {
		before := func(change change) bool { return change.end < c.begin }
		if !c.ok() {
			// What the disk has of them stays, and nobody will write the others.
			f.synced = f.torn(rng, slices.DeleteFunc(slices.Clone(f.since), func(c change) bool { return !before(c) }))
		} else {
			for _, change := range f.since {
				if before(change) {
					f.synced = change.apply(f.synced)
				}
			}
		}
		f.since = slices.DeleteFunc(f.since, before)
	} else if f == nil && c.ok() {
		d.names = slices.DeleteFunc(d.names, func(r renaming) bool {
			done := r.end < c.begin && filepath.Dir(cmp.Or(r.to, r.from)) == path
			if done {
				r.apply(d.kept)
			}
			return done
		})
	}
}

// cut writes the files as a power cut may leave them now to another folder.
func (d *disk) cut(rng *rand.Rand, root string) error {
	kept := maps.Clone(d.kept)
	for _, r := range d.names[:rng.IntN(len(d.names)+1)] {
		r.apply(kept)
	}
	for _, path := range slices.Sorted(maps.Keys(kept)) {
		f := kept[path]
		content := f.torn(rng, f.since)
		if strings.HasSuffix(path, "-shm") { // it is mapped, and never synced
			content = garbage(rng, rng.IntN(3)<<15)
		}
		path = filepath.Join(root, strings.TrimPrefix(path, d.root))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// torn returns what a cut may leave of a file: what was synced and any part of some changes.
func (f *inode) torn(rng *rand.Rand, changes []change) []byte {
	content := bytes.Clone(f.synced)
	if len(changes) == 0 {
		return content
	}
	sector := []int64{512, 4096}[rng.IntN(2)]
	much := []float64{0, 0.5, 0.9, 1}[rng.IntN(4)]
	lost := rng.IntN(4)
	// until has the number of changes that have reached each sector.
	until := make(map[int64]int)
	for i, c := range changes {
		if c.data == nil {
			if rng.Float64() < much {
				content = c.apply(content)
			}
			continue
		}
		for begin, end := c.at, c.at+int64(len(c.data)); begin < end; {
			n := begin / sector
			stop := min(end, (n+1)*sector)
			if _, ok := until[n]; !ok {
				switch until[n] = len(changes); {
				case rng.Float64() >= much:
					until[n] = 0
				case rng.IntN(2) == 0:
					until[n] = rng.IntN(len(changes))
				}
			}
			if i < until[n] {
				content = change{0, begin, c.data[begin-c.at : stop-c.at]}.apply(content)
			} else if size := int64(len(content)); stop > size {
				switch lost {
				case 1:
					content = resized(content, int(stop))
				case 2:
					content = append(content, garbage(rng, int(stop-size))...)
				case 3:
					content = append(content, f.former[min(size, int64(len(f.former))):min(stop, int64(len(f.former)))]...)
				}
			}
			begin = stop
		}
	}
	return content
}

// garbage returns n bytes that nobody has written.
func garbage(rng *rand.Rand, n int) []byte {
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(rng.Uint32())
	}
	return bytes
}

// checkNow compares the files that the process should see with those that there are.
func (d *disk) checkNow(t *testing.T) {
	t.Helper()
	for path, f := range d.files {
		if strings.HasSuffix(path, "-shm") {
			continue
		}
		if got := testenv.Must(os.ReadFile(path)); !bytes.Equal(got, f.now) {
			t.Errorf("%s has %d bytes, and by the trace %d, or others", path, len(got), len(f.now))
		}
	}
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && d.files[path] == nil {
			err = errors.New(path + " is not in the trace")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
