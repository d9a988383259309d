package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"stepboard/config"
)

// ErrExists means that an object has the name already.
var ErrExists = errors.New("exists already")

// ErrNotFound means that there is no object of a name.
var ErrNotFound = errors.New("does not exist")

// Object is an object that a list has.
type Object struct {
	Name string
	Size int64
}

// Target is a bucket of an S3 service, or a folder on another disk, below a prefix. Safe for
// concurrent use.
type Target interface {
	// Create writes an object of the given size. It returns ErrExists, and changes nothing, if there is
	// one of that name. After any other error it may have been written. When it returns nil, the
	// object survives a loss of power.
	Create(ctx context.Context, name string, from io.ReadSeeker, size int64) error
	// Read reads an object from its beginning. The caller closes it. ErrNotFound.
	Read(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the objects whose names begin with a prefix, ordered by name. It may lack what
	// was written a short time ago.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Local reports that it is a folder: to read something small costs next to nothing, and Create is exclusive.
	Local() bool
	// Delete deletes objects, as far as it may: those that do not exist are no error.
	Delete(ctx context.Context, names ...string) error
}

// Open returns the target that settings name. It asks nobody whether the target can be used.
func Open(o config.Backup) (Target, error) {
	// The address may have a secret, although it must not: no error shows it.
	u, err := url.Parse(o.To)
	switch {
	case err != nil || u.Scheme != "s3" && u.Scheme != "file":
		return nil, errors.New("no address of a target: use s3://bucket/prefix or file:///folder")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme == "s3" && strings.Contains(o.To, "@"):
		return nil, errors.New("the address of a target may have no keys, and no @, ? and #: " +
			"set backup.access_key and backup.secret_key, or the environment")
	case u.Scheme == "s3":
		return openS3(o, u.Host, strings.Trim(u.Path, "/"))
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/") // before the letter of a drive
	}
	path = filepath.FromSlash(path)
	if u.Host != "" || !filepath.IsAbs(path) || filepath.Dir(filepath.Clean(path)) == filepath.Clean(path) {
		return nil, fmt.Errorf("%s names no folder: use file:// and the whole path, as in file:///mnt/disk/stepboard", o.To)
	}
	return newFolder(filepath.Clean(path)), nil
}
