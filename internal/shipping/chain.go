package shipping

import (
	"context"
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
	// shippedFile has the changes that the target has got last.
	shippedFile = "shipped.ltx"
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
	To         string    `json:"to"`
	Generation uint64    `json:"generation"`
	ID         string    `json:"id"`
	BeganAt    time.Time `json:"began_at"`
	Layout     int       `json:"layout"`
	// Base is the state that the first one is; nil if the generation begins with a full copy.
	Base *backups.Base `json:"base,omitempty"`
	// FullAt is when the last full copy began that is below Base.
	FullAt time.Time       `json:"full_at,omitzero"`
	Pages  uint32          `json:"pages"`
	Sum    ltx.Checksum    `json:"sum"`
	End    stores.Position `json:"end"`
}

// pages returns how many pages the database has as it is at a place in the log, where it has what c says.
func (s *Shipper) pages(c stores.Changes) (uint32, error) {
	if c.Pages != 0 {
		return c.Pages, nil
	}
	return s.log.Size()
}

// measure returns the checksums of all pages of the database as it is at a place in the log, where it has
// what c says. It reads all of it. use, if it is not nil, is called with each page but the one without content.
func (s *Shipper) measure(c stores.Changes, page func(at int64, to []byte) error, use func(n uint32, content []byte, sum ltx.Checksum) error) (sums []ltx.Checksum, sum ltx.Checksum, err error) {
	pages, err := s.pages(c)
	if err != nil {
		return nil, 0, err
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
			if n == lock {
				sums = append(sums, 0)
				continue
			}
			content := buffer[(n-first)*stores.PageSize:][:stores.PageSize]
			if at, ok := c.At[n]; ok {
				if err := page(at, content); err != nil {
					return nil, 0, err
				}
			}
			one := ltx.ChecksumPageWithHasher(hasher, n, content)
			sums = append(sums, one)
			sum ^= one
			if use != nil {
				if err := use(n, content, one); err != nil {
					return nil, 0, err
				}
			}
		}
	}
	return sums, ltx.ChecksumFlag | sum, nil
}

// prove finds out whether the database is a later state of the chain that the data folder has, and goes on
// with that.
func (s *Shipper) prove(ctx context.Context) (*chain, error) {
	c := new(chain)
	if err := readJSON(s.path(chainFile), &c.start); err != nil {
		return nil, err
	}
	if c.To != s.o.To {
		return nil, fmt.Errorf("its copies are at %s", c.To)
	}
	s.own = backups.Place{Number: c.Generation, ID: c.ID}
	if c.Layout != backups.Layout {
		return nil, errors.New("its copies have the layout of an earlier version")
	}
	pages := c.Pages
	c.state, c.at, c.sum, c.end = 1, c.BeganAt, c.Sum, c.End
	follow := func(path string) error {
		header, trailer, err := verify(path)
		if err != nil {
			return err
		}
		c.state, c.at, pages, c.sum = uint64(header.MaxTXID), time.UnixMilli(header.Timestamp), header.Commit, trailer.PostApplyChecksum
		c.end = stores.PositionAt([2]uint32{header.WALSalt1, header.WALSalt2}, header.WALOffset+header.WALSize)
		return nil
	}
	if err := follow(s.path(shippedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	states, err := s.states()
	if err != nil {
		return nil, err
	}
	// A loss of power may have torn or lost any of what was not synced. The target has none of that, and the log has
	// everything since the last state before it.
	for _, state := range states {
		if state == c.state+1 && follow(s.changes(state)) == nil {
			continue
		}
		if err := remove(s.changes(state)); err != nil {
			return nil, err
		}
	}
	if c.Base != nil && c.state == 1 {
		return nil, errors.New("the changes that it began with are gone")
	}
	if proven, err := s.continues(ctx, c, pages); proven || err != nil {
		return c, err
	}
	return nil, errors.New("it is not what was collected last")
}

// continues reports whether the database is what a chain says, and completes that one's checksums and place in the
// log. The log goes on at the end of the chain, or was moved into the database meanwhile. It reads the database.
func (s *Shipper) continues(ctx context.Context, c *chain, pages uint32) (proven bool, err error) {
	compare := func(changes stores.Changes, page func(int64, []byte) error) error {
		if changes.Pages != 0 && changes.Pages != pages {
			return nil
		}
		sums, sum, err := s.measure(changes, page, nil)
		if err == nil && sum == c.sum && len(sums) == int(pages) {
			proven, c.sums, c.end = true, sums, changes.End
		}
		return err
	}
	if c.end.Frames != 0 {
		err = s.log.ReadUpTo(ctx, c.end, compare)
	}
	if err == nil && !proven {
		err = compare(stores.Changes{}, nil)
	}
	return proven, err
}

// check gives the chain up if its database is not what the chain says. No defect is known, and no
// program may move the log but we, but such a copy would be noticed only when it is needed.
func (s *Shipper) check(ctx context.Context) error {
	if err := s.Collect(ctx, true, nil); err != nil { // a commit may have begun the log anew
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chain == nil {
		return nil
	}
	now := *s.chain
	matches, err := s.continues(ctx, &now, uint32(len(now.sums)))
	switch {
	case err != nil:
	case matches:
		*s.chain = now
	default:
		err = errors.New("the database is not what its copies say")
		s.lose(ctx, err)
		s.doubtful = true
	}
	return err
}

// states returns the numbers of the states whose changes wait in the data folder.
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

// verify reads a file of changes.
func verify(path string) (ltx.Header, ltx.Trailer, error) {
	file, err := os.Open(path)
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

// Collect implements stores.LogReader.
func (s *Shipper) Collect(ctx context.Context, wait bool, move func() (frames uint32, err error)) error {
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
		if err == nil && move != nil {
			err = s.sync()
		}
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
	frames, err := move()
	if s.chain != nil {
		s.noteMoved(frames)
	}
	return err
}

// noteMoved notes how many frames of the log the file of the database has. It needs the lock.
func (s *Shipper) noteMoved(frames uint32) {
	if frames == stores.AllFrames {
		s.moved, s.ends = s.chain.state, nil
	}
	for len(s.ends) > 0 && s.ends[0].frames <= frames {
		s.moved, s.ends = s.ends[0].state, s.ends[1:]
	}
}

// sync makes what was collected survive a loss of power. It needs the lock.
func (s *Shipper) sync() error {
	for _, state := range s.unsynced {
		if err := syncFile(s.changes(state)); err != nil {
			return err
		}
	}
	if len(s.unsynced) == 0 {
		return nil
	}
	s.unsynced = nil
	return stores.SyncDir(s.dir)
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// know finds out which chain the data folder has, or what a generation may begin upon. It needs the lock.
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
		return s.knowBase(ctx)
	}
	waiting, err := s.states()
	if err != nil {
		return err
	}
	s.shippedAt = c.at
	if len(waiting) > 0 {
		header, _, err := verify(s.changes(waiting[0]))
		if err != nil {
			return err
		}
		s.shippedAt = time.UnixMilli(header.Timestamp)
	}
	_, err = os.Stat(s.path(fullFile))
	if s.spooled = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, state := range waiting {
		s.status.WaitingBytes += s.size(state)
	}
	s.waiting, s.unsynced = waiting, slices.Clone(waiting)
	s.fullAt = c.FullAt
	s.chain, s.ends = c, []end{{c.state, c.end.Frames}}
	s.status.Generation, s.status.State = c.Generation, c.state
	return nil
}

// lose gives a chain up that has a gap: a new generation begins upon what was collected last, if that can still be
// shipped, and otherwise with a full copy. It needs the lock.
func (s *Shipper) lose(ctx context.Context, why error) {
	s.o.Log.ErrorContext(ctx, "copies of the database begin anew", "error", why)
	if c := s.chain; c != nil && s.status.Whole && !errors.Is(why, errTooMuchWaits) && c.whole() {
		s.base = &base{baseHeader{s.o.To, backups.Base{Generation: c.Generation, ID: c.ID, State: c.state}, c.sum, s.o.Clock(), s.fullAt}, c.sums}
	} else {
		s.base, s.waiting, s.status.WaitingBytes = nil, nil, 0
	}
	s.chain, s.spooled, s.status.Whole = nil, false, false
}

// whole reports whether the checksums of the pages are those of its state: an error may have come between.
func (c *chain) whole() bool {
	sum := ltx.Checksum(0)
	for _, one := range c.sums {
		sum ^= one
	}
	return ltx.ChecksumFlag|sum == c.sum
}

var errTooMuchWaits = errors.New("too much waits for the target")

// collect writes what was committed since the last state to a file of the data folder, as the next
// state. It needs the lock.
func (s *Shipper) collect(ctx context.Context) error {
	c, now := s.chain, s.o.Clock().Truncate(time.Millisecond) // the state has everything that was committed by then
	return s.log.Read(ctx, c.end, func(changes stores.Changes, page func(int64, []byte) error) error {
		if c.end.Frames != 0 && c.end.Salts != changes.End.Salts && s.moved != c.state {
			return errors.New("somebody else has moved the write-ahead log into the database")
		}
		if changes.Pages == 0 {
			c.end = changes.End
			return nil
		}
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
		if s.chain.end.Salts != next.end.Salts {
			s.ends = nil
		}
		s.chain = next
		s.ends = append(s.ends, end{next.state, next.end.Frames})
		s.waiting, s.unsynced = append(s.waiting, next.state), append(s.unsynced, next.state)
		s.status.WaitingBytes += s.size(next.state)
		s.status.State = next.state
		if s.status.WaitingBytes > int64(s.o.MaxLag) {
			return fmt.Errorf("%w: more than %d MB for %s", errTooMuchWaits, s.o.MaxLag>>20, s.o.To)
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
func writeChanges(path string, from, next *chain, changes stores.Changes, page func(int64, []byte) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	begin := stores.Position{}.Offset()
	if from.end.Salts == next.end.Salts {
		begin = from.end.Offset()
	}
	hasher := ltx.NewHasher()
	err = backups.Encode(file, next.header(begin, changes.Pages, from.sum), func(write backups.WritePage) (ltx.Checksum, error) {
		err := writePages(changes.At, changes.Pages, page, func(n uint32, content []byte) error {
			one := ltx.ChecksumPageWithHasher(hasher, n, content)
			next.sum = ltx.ChecksumFlag | (next.sum ^ next.sums[n-1] ^ one)
			next.sums[n-1] = one
			return write(n, content)
		})
		return next.sum, err
	})
	return errors.Join(err, file.Close())
}

// writePages writes the pages that are at places from which read reads them, up to a number.
func writePages(at map[uint32]int64, last uint32, read func(at int64, to []byte) error, write backups.WritePage) error {
	content := make([]byte, stores.PageSize)
	for _, n := range slices.Sorted(maps.Keys(at)) {
		if n > last {
			break
		}
		if err := read(at[n], content); err != nil {
			return err
		}
		if err := write(n, content); err != nil {
			return err
		}
	}
	return nil
}

// header returns the header of the changes that lead to a state, which the log has from a place on.
func (c *chain) header(begin int64, pages uint32, before ltx.Checksum) ltx.Header {
	return ltx.Header{
		Version: ltx.Version, PageSize: stores.PageSize, Commit: pages,
		MinTXID: ltx.TXID(c.state), MaxTXID: ltx.TXID(c.state), Timestamp: c.at.UnixMilli(),
		PreApplyChecksum: before, WALOffset: begin, WALSize: c.end.Offset() - begin,
		WALSalt1: c.end.Salts[0], WALSalt2: c.end.Salts[1],
	}
}
