package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/stores"
)

// unfinished is the folder of what is being written. No object is in it.
const unfinished = "unfinished"

// folder is a folder on another disk. Only this account can read what is made in it.
type folder struct {
	dir  string
	made sync.Map // folders that survive a loss of power
	seen atomic.Bool
	tidy sync.Once
	// link gives a file another name, unless that exists.
	link func(from, to string) error
	// hanging is how many calls were given up that have not ended.
	hanging atomic.Int64
}

// mostHanging is how many calls of a disk that does not answer may wait for it. Each keeps a thread.
const mostHanging = 4

// Local implements Target.
func (f *folder) Local() bool { return true }

// within returns what do returns, or an error as soon as ctx has ended: a share on the network may never answer.
func within[T any](ctx context.Context, f *folder, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if f.hanging.Load() >= mostHanging {
		return none, fmt.Errorf("%s does not answer", f.dir)
	}
	f.hanging.Add(1)
	ended := make(chan result, 1)
	go func() {
		defer f.hanging.Add(-1)
		value, err := do()
		ended <- result{value, err}
	}()
	select {
	case r := <-ended:
		return r.value, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("%s does not answer: %w", f.dir, ctx.Err())
	}
}

func newFolder(dir string) *folder { return &folder{dir: dir, link: os.Link} }

func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// check returns an error if the folder seems to be missing because its disk is: writing would
// make it on the disk below, and reading find no copies.
func (f *folder) check() error {
	if _, err := os.Stat(f.dir); err == nil {
		f.seen.Store(true)
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(f.dir)
	if _, err := os.Stat(above); err != nil || f.seen.Load() {
		return fmt.Errorf("there is no folder %s any more, or none above it: is the disk there? Otherwise make it", f.dir)
	}
	return nil
}

// Create implements Target.
func (f *folder) Create(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	_, err := within(ctx, f, func() (struct{}, error) { return struct{}{}, f.create(ctx, name, from, size) })
	return err
}

func (f *folder) create(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	err := f.createIn(ctx, name, from, size)
	if errors.Is(err, fs.ErrNotExist) { // a folder that was made is gone: another disk may be here
		f.made.Clear()
		err = f.createIn(ctx, name, from, size)
	}
	return err
}

func (f *folder) createIn(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	path := f.path(name)
	for _, dir := range []string{f.path(unfinished), filepath.Dir(path)} {
		if err := f.makeDir(dir); err != nil {
			return err
		}
	}
	f.tidy.Do(f.removeLeft)
	file, err := os.CreateTemp(f.path(unfinished), "*") // for this account only
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // or removeLeft does it
	if _, err = from.Seek(0, io.SeekStart); err == nil {
		var n int64
		n, err = stores.Copy(ctx, file, io.LimitReader(from, size), func(int64) {})
		if err == nil && n != size {
			err = fmt.Errorf("%d of %d bytes of %s: %w", n, size, name, io.ErrUnexpectedEOF)
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	err = f.link(file.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = rename(file.Name(), path) // FAT, for one, has no links
	}
	exists := errors.Is(err, fs.ErrExist)
	if err != nil && !exists {
		return err
	}
	// Also if it exists: who wrote it may have been killed before this.
	if err := stores.SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	if exists {
		return ErrExists
	}
	return nil
}

// makeDir makes a folder in this one. After a loss of power it is still there.
func (f *folder) makeDir(dir string) error {
	if _, ok := f.made.Load(dir); ok {
		return nil
	}
	if err := f.check(); err != nil {
		return err
	}
	if dir != f.dir {
		if err := f.makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Who made it may have been killed before. The one above may be another account's.
	if err == nil || dir != f.dir {
		if err := stores.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	f.made.Store(dir, true)
	return nil
}

// removeLeft removes what was left by processes that were killed a day ago or earlier.
func (f *folder) removeLeft() {
	files, _ := os.ReadDir(f.path(unfinished)) // otherwise the next process does it
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(f.path(unfinished + "/" + file.Name())) // as above
		}
	}
}

// Read implements Target.
func (f *folder) Read(ctx context.Context, name string) (io.ReadCloser, error) {
	file, err := within(ctx, f, func() (*os.File, error) { return f.open(name) })
	if err != nil {
		return nil, err
	}
	return &folderReader{ctx, f, file}, nil
}

func (f *folder) open(name string) (*os.File, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.check(); err != nil {
			return nil, err
		}
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file.Name())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// folderReader is a file that is read within a context.
type folderReader struct {
	ctx  context.Context //nolint:containedctx // that of Read
	f    *folder
	file *os.File
}

// Read implements io.Reader. After an error what was read may still be written to memory of its own only.
func (r *folderReader) Read(p []byte) (int, error) {
	text, err := within(r.ctx, r.f, func() ([]byte, error) {
		text := make([]byte, min(len(p), 1<<20))
		n, err := r.file.Read(text)
		return text[:n], err
	})
	return copy(p, text), err
}

// Close implements io.Closer.
func (r *folderReader) Close() error { return r.file.Close() }

// List implements Target.
func (f *folder) List(ctx context.Context, prefix string) ([]Object, error) {
	return within(ctx, f, func() ([]Object, error) { return f.list(ctx, prefix) })
}

func (f *folder) list(ctx context.Context, prefix string) (list []Object, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(f.path(prefix[:strings.LastIndex(prefix, "/")+1]), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was deleted, or never made
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if entry.IsDir() && path == f.path(unfinished) {
			return fs.SkipDir
		}
		name := filepath.ToSlash(strings.TrimPrefix(path[len(f.dir):], string(filepath.Separator)))
		if !entry.Type().IsRegular() || !strings.HasPrefix(name, prefix) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			list = append(list, Object{Name: name, Size: info.Size()})
		}
		return err
	})
	slices.SortFunc(list, byName)
	return list, err
}

// Delete implements Target.
func (f *folder) Delete(ctx context.Context, names ...string) error {
	_, err := within(ctx, f, func() (struct{}, error) { return struct{}{}, f.remove(ctx, names) })
	return err
}

func (f *folder) remove(ctx context.Context, names []string) (err error) {
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e := os.Remove(f.path(name)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	return err
}
