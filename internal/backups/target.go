package backups

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrExists means that an object has the name already.
var ErrExists = errors.New("exists already")

// ErrNotFound means that there is no object of a name.
var ErrNotFound = errors.New("does not exist")

// Object is an object that a list has.
type Object struct {
	Name string
	Size int64
	// WrittenAt is by the target's clock.
	WrittenAt time.Time
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
