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

// A file of erasures has a line of JSON with the key, and for each erasure one for each id
// that the user had. It has hashes instead of user ids, and no row ids.

// fileHead is the first line of a file.
type fileHead struct {
	// Version is that of the form of the file.
	Version int    `json:"stepboard_erasures"`
	Key     string `json:"key"`
}

// fileLine is an erasure of a user under one id in a file.
type fileLine struct {
	Hash    string           `json:"hash"`
	BegunAt models.Timestamp `json:"begun_at"`
}

const (
	fileVersion = 1
	// filePage is how many rows are read at a time.
	filePage = 10_000
)

// WriteFile writes all erasures, and returns their number. One query for each filePage.
func (s *Service) WriteFile(ctx context.Context, w io.Writer) (n int64, err error) {
	secret, err := s.o.Store.Key(ctx)
	if err != nil {
		return 0, err
	}
	encoder := json.NewEncoder(w)
	if err := encoder.Encode(fileHead{fileVersion, hex.EncodeToString(secret)}); err != nil {
		return 0, err
	}
	for before := int64(0); ; {
		page, err := s.o.Store.list(ctx, before, filePage)
		if err != nil {
			return n, err
		}
		for _, e := range page {
			before = e.ID
			for hash := range slices.Chunk(e.Hash, sha256.Size) {
				if err := encoder.Encode(fileLine{hex.EncodeToString(hash), models.TimestampOf(e.BegunAt)}); err != nil {
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
// number. Applying a file again changes nothing. It reads all users, one query for each
// filePage, and begins an erasure for each that it finds.
func (s *Service) ApplyFile(ctx context.Context, r io.Reader) (n int64, err error) {
	secret, erased, err := readFile(r)
	if err != nil {
		return 0, err
	}
	return s.apply(ctx, secret, erased)
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

// readFile returns the key and the hashes of a file.
func readFile(r io.Reader) (secret []byte, erased map[string]bool, err error) {
	decoder := json.NewDecoder(r)
	var head fileHead
	if err := decoder.Decode(&head); err != nil || head.Version != fileVersion {
		return nil, nil, errFile
	}
	if secret, err = hex.DecodeString(head.Key); err != nil || len(secret) != sha256.Size {
		return nil, nil, errFile
	}
	erased = make(map[string]bool)
	for {
		var line fileLine
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return secret, erased, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("%w: erasure %d: %w", errFile, len(erased)+1, err)
		}
		hash, err := hex.DecodeString(line.Hash)
		if err != nil || len(hash) != sha256.Size {
			return nil, nil, fmt.Errorf("%w: erasure %d has no hash", errFile, len(erased)+1)
		}
		erased[string(hash)] = true
	}
}
