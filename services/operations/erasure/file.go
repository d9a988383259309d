package erasure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"stepboard/models"
)

// A file of erasures has a line of JSON with the key, for each erasure one for each id
// that the user had, and one for each upload address that was revoked. It has hashes instead of user ids, and
// no row ids.

// fileHead is the first line of a file.
type fileHead struct {
	// Version is that of the form of the file.
	Version int    `json:"stepboard_erasures"`
	Key     string `json:"key"`
}

// fileLine is an erasure of a user under one id in a file, or the key of a revoked address.
type fileLine struct {
	Hash    string            `json:"hash,omitempty"`
	BegunAt *models.Timestamp `json:"begun_at,omitempty"`
	Revoked string            `json:"revoked_key,omitempty"`
}

const (
	fileVersion = 1
	// filePage is how many rows are read at a time.
	filePage = 10_000
)

// WriteFile writes all erasures and what was revoked, and returns the number of erasures. One query for each
// filePage, and one more.
func (s *Service) WriteFile(ctx context.Context, w io.Writer) (n int64, err error) {
	secret, err := s.o.Store.Key(ctx)
	if err != nil {
		return 0, err
	}
	encoder := json.NewEncoder(w)
	if err := encoder.Encode(fileHead{fileVersion, hex.EncodeToString(secret)}); err != nil {
		return 0, err
	}
	revoked, err := s.o.Revoked.Revoked(ctx)
	if err != nil {
		return 0, err
	}
	for _, hash := range revoked {
		if err := encoder.Encode(fileLine{Revoked: hex.EncodeToString(hash)}); err != nil {
			return 0, err
		}
	}
	for before := int64(0); ; {
		page, err := s.o.Store.list(ctx, before, filePage)
		if err != nil {
			return n, err
		}
		for _, e := range page {
			before = e.ID
			begun := models.TimestampOf(e.BegunAt)
			for hash := range slices.Chunk(e.Hash, sha256.Size) {
				if err := encoder.Encode(fileLine{Hash: hex.EncodeToString(hash), BegunAt: &begun}); err != nil {
					return n, err
				}
			}
		}
		n += int64(len(page))
		if len(page) < filePage {
			return n, nil
		}
	}
}

// errFile reports that a file is none of erasures.
var errFile = errors.New("it is no file of erasures")

// ApplyFile erases the users whose erasures are in a file and who exist, and returns their
// number. It revokes what was revoked. Applying a file again changes nothing. It reads all users, one query for each
// filePage, and begins an erasure for each that it finds.
func (s *Service) ApplyFile(ctx context.Context, r io.Reader) (n int64, err error) {
	f, err := readFile(r)
	if err != nil {
		return 0, err
	}
	if err := s.o.Revoked.RevokeAgain(ctx, f.revoked); err != nil {
		return 0, err
	}
	return s.apply(ctx, f.secret, f.erased)
}

// apply erases the users whose hashes are given, and returns their number.
func (s *Service) apply(ctx context.Context, secret []byte, erased map[string]bool) (n int64, err error) {
	for after := models.RowID(0); ; {
		page, err := s.o.Store.users(ctx, after, filePage)
		if err != nil {
			return n, err
		}
		for _, u := range page {
			after = u.Row
			if !erased[string(hashOf(secret, u.User, u.Row))] {
				continue
			}
			if _, err := s.begin(ctx, u.User, false, 0); err != nil {
				return n, err
			}
			n++
		}
		if len(page) < filePage {
			return n, nil
		}
	}
}

// file is the content of a file of erasures.
type file struct {
	secret  []byte
	erased  map[string]bool // by hash
	revoked [][]byte        // hashes of keys
}

// readFile reads a file.
func readFile(r io.Reader) (f file, err error) {
	decoder := json.NewDecoder(r)
	var head fileHead
	if err := decoder.Decode(&head); err != nil || head.Version != fileVersion {
		return f, errFile
	}
	if f.secret, err = hex.DecodeString(head.Key); err != nil || len(f.secret) != sha256.Size {
		return f, errFile
	}
	f.erased = make(map[string]bool)
	for n := 1; ; n++ {
		var line fileLine
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return f, nil
		} else if err != nil {
			return f, fmt.Errorf("%w: line %d: %w", errFile, n+1, err)
		}
		hash, err := hex.DecodeString(line.Hash + line.Revoked)
		if err != nil || len(hash) != sha256.Size {
			return f, fmt.Errorf("%w: line %d has no hash", errFile, n+1)
		}
		if line.Revoked != "" {
			f.revoked = append(f.revoked, hash)
		} else {
			f.erased[string(hash)] = true
		}
	}
}
