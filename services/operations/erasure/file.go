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
	known, err := s.o.Store.Known(ctx)
	if err != nil {
		return 0, err
	}
	lines := []any{fileHead{fileVersion, hex.EncodeToString(known.secret)}}
	for _, hash := range known.revoked {
		lines = append(lines, fileLine{Revoked: hex.EncodeToString(hash)})
	}
	for _, e := range known.list {
		begun := models.TimestampOf(e.BegunAt)
		for hash := range slices.Chunk(e.Hash, sha256.Size) {
			lines = append(lines, fileLine{Hash: hex.EncodeToString(hash), BegunAt: &begun})
		}
	}
	encoder := json.NewEncoder(w)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			return 0, err
		}
	}
	return int64(len(known.list)), nil
}

// errFile reports that a file is none of erasures.
var errFile = errors.New("it is no file of erasures")

// ApplyFile erases the users whose erasures are in a file and who exist, and returns their
// number. It revokes what was revoked. Applying a file again changes nothing. It reads all users, one query for each
// filePage, and begins an erasure for each that it finds.
func (s *Service) ApplyFile(ctx context.Context, r io.Reader) (n int64, err error) {
	known, err := readFile(r)
	if err != nil {
		return 0, err
	}
	return s.apply(ctx, known)
}

// apply erases those users whose erasures are known and who exist, and returns their number. It also revokes what was
// revoked.
func (s *Service) apply(ctx context.Context, known *Known) (n int64, err error) {
	if err := s.o.Revoked.Again(ctx, known.revoked); err != nil {
		return 0, err
	}
	erased := make(map[string]bool)
	for _, e := range known.list {
		for hash := range slices.Chunk(e.Hash, sha256.Size) {
			erased[string(hash)] = true
		}
	}
	for after := models.RowID(0); ; {
		page, err := s.o.Store.users(ctx, after, filePage)
		if err != nil {
			return n, err
		}
		for _, u := range page {
			after = u.Row
			if !erased[string(hashOf(known.secret, u.User, u.Row))] {
				continue
			}
			if _, err := s.begin(ctx, u.User, false, 0, nil); err != nil {
				return n, err
			}
			n++
		}
		if len(page) < filePage {
			return n, nil
		}
	}
}

// readFile reads a file. Of each erasure it has the hash alone.
func readFile(r io.Reader) (*Known, error) {
	decoder := json.NewDecoder(r)
	var head fileHead
	if err := decoder.Decode(&head); err != nil || head.Version != fileVersion {
		return nil, errFile
	}
	secret, err := hex.DecodeString(head.Key)
	if err != nil || len(secret) != sha256.Size {
		return nil, errFile
	}
	known := &Known{secret: secret}
	for n := 1; ; n++ {
		var line fileLine
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return known, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", errFile, n+1, err)
		}
		hash, err := hex.DecodeString(line.Hash + line.Revoked)
		if err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("%w: line %d has no hash", errFile, n+1)
		}
		if line.Revoked != "" {
			known.revoked = append(known.revoked, hash)
		} else {
			known.list = append(known.list, models.Erasure{Hash: hash})
		}
	}
}
