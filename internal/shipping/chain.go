package shipping

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/backups"
	"stepboard/internal/failpoint"
	"stepboard/internal/stores"
)

const (
	// waitingFolder, in the data folder, has the changes that the target does not have yet, those that
	// it has got last, and the file of the chain that they belong to.
	waitingFolder = "shipping"
	chainFile     = "chain.json"
	changesSuffix = ".ltx"
)

// chain is a chain of states of the database.
type chain struct {
	start

	// state is the number of the latest one, and at when it was collected.
	state uint64
	at    time.Time
	// end is its place in the log.
	end stores.Position
	// sums are the checksums of its pages, and sum is that of all.
	sums []ltx.Checksum
	sum  ltx.Checksum
}

// start is what the file of a chain has: its first state.
type start struct {
	To         string          `json:"to"`
	Generation uint64          `json:"generation"`
	ID         string          `json:"id"`
	BeganAt    time.Time       `json:"began_at"`
	Pages      uint32          `json:"pages"`
	Sum        ltx.Checksum    `json:"sum"`
	End        stores.Position `json:"end"`
}

// measure returns the checksums of all pages of the database as it is at a place in the log, where it has
// what c says. It reads all of it.
func (s *Shipper) measure(c stores.Changes, page func(at int64, to []byte) error) (sums []ltx.Checksum, sum ltx.Checksum, err error) {
	pages := c.Pages
	if pages == 0 {
		if pages, err = s.log.Size(); err != nil {
			return nil, 0, err
		}
	}
	sums = make([]ltx.Checksum, 0, pages)
	hasher := ltx.NewHasher()
	lock := ltx.LockPgno(stores.PageSize)
	buffer := make([]byte, 256*stores.PageSize)
	for first := uint32(1); first <= pages; first += 256 {
		clear(buffer)
		if _, err := s.log.ReadDatabase(first, buffer); err != nil {
			return nil, 0, err
		}
		for n := first; n < first+256 && n <= pages; n++ {
			content := buffer[(n-first)*stores.PageSize:][:stores.PageSize]
			if at, ok := c.At[n]; ok {
				if err := page(at, content); err != nil {
					return nil, 0, err
				}
			}
			var one ltx.Checksum
			if n != lock {
				one = ltx.ChecksumPageWithHasher(hasher, n, content)
			}
			sums = append(sums, one)
			sum ^= one
		}
	}
	return sums, ltx.ChecksumFlag | sum, nil
}

// prove finds out whether the database is a later state of the chain that the data folder has, and goes on
// with that.
func (s *Shipper) prove(ctx context.Context) (*chain, error) {
	text, err := os.ReadFile(s.path(chainFile))
	if err != nil {
		return nil, err
	}
	c := new(chain)
	if err := json.Unmarshal(text, &c.start); err != nil {
		return nil, err
	}
	if c.To != s.o.To {
		return nil, fmt.Errorf("its copies are at %s", c.To)
	}
	pages := c.Pages
	c.state, c.at, c.sum, c.end = 1, c.BeganAt, c.Sum, c.End
	states, err := s.states()
	if err != nil {
		return nil, err
	}
	if len(states) > 0 {
		header, trailer, err := s.verify(states[len(states)-1])
		if err != nil {
			return nil, err
		}
		c.state, c.at, pages, c.sum = uint64(header.MaxTXID), time.UnixMilli(header.Timestamp), header.Commit, trailer.PostApplyChecksum
		c.end = stores.PositionAt([2]uint32{header.WALSalt1, header.WALSalt2}, header.WALOffset+header.WALSize)
	}
	// The log goes on there, or it was moved into the database meanwhile.
	for _, end := range []stores.Position{c.end, {}} {
		c.end = end
		if proven, err := s.matches(ctx, c, pages); proven || err != nil {
			return c, err
		}
	}
	return nil, errors.New("it is not what was collected last")
}

// matches reports whether the database is, at the end of a chain, what the chain says, and completes
// that one's checksums. It reads the database.
func (s *Shipper) matches(ctx context.Context, c *chain, pages uint32) (matches bool, err error) {
	compare := func(changes stores.Changes, page func(int64, []byte) error) error {
		if changes.Pages != 0 && changes.Pages != pages {
			return nil
		}
		sums, sum, err := s.measure(changes, page)
		if err == nil && sum == c.sum && len(sums) == int(pages) {
			matches, c.sums, c.end = true, sums, changes.End
		}
		return err
	}
	if c.end.Frames == 0 {
		err = compare(stores.Changes{}, nil)
		return matches, err
	}
	_, err = s.log.ReadUpTo(ctx, c.end, compare)
	return matches, err
}

// check gives the chain up if its database is not what the chain says. No defect is known, and no
// program may move the log but we, but such a copy would be noticed only when it is needed.
func (s *Shipper) check(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chain == nil {
		return nil
	}
	matches, err := s.matches(ctx, s.chain, uint32(len(s.chain.sums)))
	if err == nil && !matches {
		s.lose(ctx, errors.New("the database is not what its copies say"))
	}
	return err
}

// states returns the numbers of the states whose changes are in the data folder.
func (s *Shipper) states() ([]uint64, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var states []uint64
	for _, entry := range entries {
		name, isChanges := strings.CutSuffix(entry.Name(), changesSuffix)
		if n, err := strconv.ParseUint(name, 16, 64); isChanges && err == nil {
			states = append(states, n)
		}
	}
	slices.Sort(states)
	return states, nil
}

// verify reads the changes of a state in the data folder.
func (s *Shipper) verify(state uint64) (ltx.Header, ltx.Trailer, error) {
	file, err := os.Open(s.changes(state))
	if err != nil {
		return ltx.Header{}, ltx.Trailer{}, err
	}
	defer file.Close()
	decoder := ltx.NewDecoder(file)
	err = decoder.Verify()
	return decoder.Header(), decoder.Trailer(), err
}

func (s *Shipper) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Shipper) changes(state uint64) string {
	return s.path(fmt.Sprintf("%016x%s", state, changesSuffix))
}

// begin begins a generation with the database as it is.
func (s *Shipper) begin(ctx context.Context) error {
	if err := s.reset(); err != nil {
		return err
	}
	if s.claiming == "" {
		s.claiming = rand.Text()
	}
	first := start{To: s.o.To, ID: s.claiming, BeganAt: s.o.Clock().Truncate(time.Millisecond)}
	var err error
	if first.Generation, err = s.claim(ctx, first); err != nil {
		return fmt.Errorf("begin a generation: %w", err)
	}
	failpoint.Hit("shipping.claimed")
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &chain{state: 1, at: first.BeganAt}
	err = s.log.Read(ctx, stores.Position{}, func(changes stores.Changes, page func(int64, []byte) error) (err error) {
		c.end = changes.End
		c.sums, c.sum, err = s.measure(changes, page)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	first.Pages, first.Sum, first.End = uint32(len(c.sums)), c.sum, c.end
	c.start = first
	text, err := json.Marshal(first)
	if err == nil {
		err = os.WriteFile(s.path(chainFile), text, 0o600)
	}
	if err != nil {
		return err
	}
	s.chain, s.claiming = c, ""
	s.status.Generation, s.status.State = c.Generation, c.state
	s.o.Log.InfoContext(ctx, "copies of the database begin a new generation", "to", s.o.To, "generation", c.Generation)
	return nil
}

// reset removes what the data folder has of a chain.
func (s *Shipper) reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chain, s.moved, s.waiting, s.shipped = nil, 0, nil, 0
	s.status.WaitingBytes, s.status.Whole = 0, false
	return errors.Join(os.RemoveAll(s.dir), os.Mkdir(s.dir, 0o700))
}

// claim creates the object of the next generation, and returns its number.
func (s *Shipper) claim(ctx context.Context, first start) (uint64, error) {
	host, _ := os.Hostname()
	text, err := json.Marshal(backups.Generation{ID: first.ID, Host: host, Version: s.o.Version, BeganAt: first.BeganAt.UTC()})
	if err != nil {
		return 0, err
	}
	numbers, err := backups.Generations(ctx, s.o.Target)
	if err != nil {
		return 0, err
	}
	next := uint64(1)
	if len(numbers) > 0 {
		last := numbers[len(numbers)-1]
		found, err := readGeneration(ctx, s.o.Target, last)
		if err != nil || found.ID == first.ID { // the answer to an earlier attempt was lost
			return last, err
		}
		next = last + 1
	}
	for ; ; next++ {
		err := s.o.Target.Create(ctx, backups.GenerationObject(next), bytes.NewReader(text), int64(len(text)))
		if err != nil && !errors.Is(err, backups.ErrExists) {
			return 0, err
		}
		if err == nil { // a target without conditions lets two of us do so
			if err := s.o.Pause(ctx, s.o.ReadBack); err != nil {
				return 0, err
			}
		}
		found, err := readGeneration(ctx, s.o.Target, next)
		if err != nil {
			return 0, err
		}
		if found.ID == first.ID {
			return next, nil
		}
	}
}

// Collect implements stores.LogReader.
func (s *Shipper) Collect(ctx context.Context, wait bool, move func() (all bool, err error)) error {
	if wait {
		s.mu.Lock()
	} else if !s.mu.TryLock() {
		return stores.ErrNotYet
	}
	defer s.mu.Unlock()
	if !s.known {
		if !wait {
			return stores.ErrNotYet
		}
		if err := s.know(ctx); err != nil {
			return err
		}
	}
	if s.chain != nil {
		err := s.collect(ctx)
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err != nil {
			s.lose(ctx, err)
		}
	}
	if move == nil {
		return nil
	}
	all, err := move()
	if all && s.chain != nil {
		s.moved = s.chain.state
	}
	return err
}

// know finds out which chain the data folder has. It needs the lock.
func (s *Shipper) know(ctx context.Context) error {
	c, err := s.prove(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.known = true
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.o.Log.WarnContext(ctx, "the database does not go on with the copies that were made of it", "error", err)
		}
		return nil
	}
	if s.waiting, err = s.states(); err != nil {
		return err
	}
	for i, state := range s.waiting {
		s.status.WaitingBytes += s.size(state)
		if i == 0 { // the target may have it already
			header, _, err := s.verify(state)
			if err != nil {
				return err
			}
			s.shippedAt = time.UnixMilli(header.Timestamp)
		}
	}
	s.chain = c
	s.status.Generation, s.status.State = c.Generation, c.state
	return nil
}

// lose gives a chain up that has a gap: a new generation begins with a full copy. It needs the lock.
func (s *Shipper) lose(ctx context.Context, why error) {
	s.o.Log.ErrorContext(ctx, "copies of the database begin anew", "error", why)
	s.chain, s.status.Whole = nil, false
}

// collect writes what was committed since the last state to a file of the data folder, as the next
// state. It needs the lock.
func (s *Shipper) collect(ctx context.Context) error {
	c := s.chain
	return s.log.Read(ctx, c.end, func(changes stores.Changes, page func(int64, []byte) error) error {
		if c.end.Frames != 0 && c.end.Salts != changes.End.Salts && s.moved != c.state {
			return errors.New("somebody else has moved the write-ahead log into the database")
		}
		if changes.Pages == 0 {
			c.end = changes.End
			return nil
		}
		now := s.o.Clock().Truncate(time.Millisecond)
		if !now.After(c.at) { // each state has a time of its own
			now = c.at.Add(time.Millisecond)
		}
		next, err := c.next(changes, now)
		if err != nil {
			return err
		}
		path := s.changes(next.state)
		if err := writeChanges(path+".new", c, next, changes, page); err != nil {
			return fmt.Errorf("write changes of the database: %w", err)
		}
		failpoint.Hit("shipping.collected")
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
		s.chain = next
		s.waiting = append(s.waiting, next.state)
		s.status.WaitingBytes += s.size(next.state)
		s.status.State = next.state
		if s.status.WaitingBytes > s.o.MaxLag {
			return fmt.Errorf("more than %d MB wait for %s", s.o.MaxLag>>20, s.o.To)
		}
		return nil
	})
}

// size returns how many bytes a file of changes has.
func (s *Shipper) size(state uint64) int64 {
	info, err := os.Stat(s.changes(state))
	if err != nil {
		return 0
	}
	return info.Size()
}

// next returns the chain with changes, without their checksums.
func (c *chain) next(changes stores.Changes, at time.Time) (*chain, error) {
	next := *c
	next.state, next.at, next.end = c.state+1, at, changes.End
	for len(next.sums) > int(changes.Pages) {
		next.sum ^= next.sums[len(next.sums)-1]
		next.sums = next.sums[:len(next.sums)-1]
	}
	for n := uint32(len(next.sums)) + 1; n <= changes.Pages; n++ {
		if _, ok := changes.At[n]; !ok && n != ltx.LockPgno(stores.PageSize) {
			return nil, fmt.Errorf("page %d of the database is in no transaction", n)
		}
		next.sums = append(next.sums, 0)
	}
	return &next, nil
}

// writeChanges writes the file of the changes from one state to the next, and completes that one's
// checksums.
func writeChanges(path string, from, next *chain, changes stores.Changes, page func(int64, []byte) error) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	encoder, err := ltx.NewEncoder(file)
	if err != nil {
		return err
	}
	begin := int64(0)
	if from.end.Salts == next.end.Salts {
		begin = from.end.Offset()
	} else {
		begin = stores.Position{}.Offset()
	}
	header := ltx.Header{
		Version: ltx.Version, PageSize: stores.PageSize, Commit: changes.Pages,
		MinTXID: ltx.TXID(next.state), MaxTXID: ltx.TXID(next.state), Timestamp: next.at.UnixMilli(),
		PreApplyChecksum: from.sum, WALOffset: begin, WALSize: next.end.Offset() - begin,
		WALSalt1: next.end.Salts[0], WALSalt2: next.end.Salts[1],
	}
	if err := encoder.EncodeHeader(header); err != nil {
		return err
	}
	content := make([]byte, stores.PageSize)
	hasher := ltx.NewHasher()
	for _, n := range slices.Sorted(maps.Keys(changes.At)) {
		if n > changes.Pages {
			continue
		}
		if err := page(changes.At[n], content); err != nil {
			return err
		}
		if err := encoder.EncodePage(ltx.PageHeader{Pgno: n}, content); err != nil {
			return err
		}
		one := ltx.ChecksumPageWithHasher(hasher, n, content)
		next.sum = ltx.ChecksumFlag | (next.sum ^ next.sums[n-1] ^ one)
		next.sums[n-1] = one
	}
	encoder.SetPostApplyChecksum(next.sum)
	return encoder.Close()
}
