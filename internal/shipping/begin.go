package shipping

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/backups"
	"stepboard/internal/failpoint"
	"stepboard/internal/stores"
)

const (
	// fullFile, in the folder of what waits, says that the parts of the full copy beside it are all there. It is
	// the Full that is shipped after them.
	fullFile = "full.json"
	// baseFile is a state of an earlier generation upon which the next one may begin.
	baseFile = "base"
	// beforeFile is the file of the chain before, while the next generation begins.
	beforeFile = "before.json"
	// spoolSize is how large a database may be, in bytes, that is copied wholly while its generation begins: the
	// log can't be moved meanwhile, for two seconds at this size, and the folder needs as much space again.
	spoolSize = 256 << 20
)

// wishFor is how long a wish to begin anew holds.
const wishFor = 24 * time.Hour

// ErrElsewhere means that the target does not have the generation of this database: it may be the empty folder
// below a disk that is missing.
var ErrElsewhere = errors.New("is not there: is its disk missing? Nothing is copied until it is back, or somebody says `stepboard backups begin`")

// base is a state of a generation, with the checksums of its pages.
type base struct {
	baseHeader

	sums []ltx.Checksum
}

// baseHeader is the first line of the file of a base; the checksums of the pages follow, 8 bytes each, big-endian.
type baseHeader struct {
	To string `json:"to"`
	backups.Base

	Sum ltx.Checksum `json:"sum"`
	// At is when it was collected, and FullAt when the last full copy began that is below it.
	At     time.Time `json:"at"`
	FullAt time.Time `json:"full_at"`
}

// KeepBase leaves in a data folder what was restored to it, so that its copies go on from there, if they go to
// where that came from.
func KeepBase(folder *stores.Folder, from string, r backups.Restored) error {
	dir := folder.Path(waitingFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if r.ID == "" {
		return remove(filepath.Join(dir, baseFile))
	}
	b := base{baseHeader{from, backups.Base{Generation: r.Generation, ID: r.ID, State: r.State}, r.Checksum, r.Time, r.FullAt}, r.Sums}
	return b.write(dir)
}

// write writes the file of a base, which survives a loss of power.
func (b *base) write(dir string) error {
	return stores.WriteSynced(filepath.Join(dir, baseFile), func(to io.Writer) error {
		out := bufio.NewWriter(to)
		if err := json.NewEncoder(out).Encode(b.baseHeader); err != nil {
			return err
		}
		if err := binary.Write(out, binary.BigEndian, b.sums); err != nil {
			return err
		}
		return out.Flush()
	})
}

// readBase reads the file of a base, which has the sums of a whole database.
func readBase(path string) (*base, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	from := bufio.NewReader(file)
	line, err := from.ReadBytes('\n')
	b := new(base)
	if err == nil {
		err = json.Unmarshal(line, &b.baseHeader)
	}
	if err == nil {
		b.sums = make([]ltx.Checksum, (info.Size()-int64(len(line)))/8)
		err = binary.Read(from, binary.BigEndian, b.sums)
	}
	if c := (&chain{sums: b.sums, sum: b.Sum}); err == nil && !c.whole() {
		err = errors.New("it is damaged")
	}
	return b, err
}

// knowBase finds out where copies of the database were made, and upon which state the next generation may begin. Later
// generations don't matter: the start is deliberate. It needs the lock.
func (s *Shipper) knowBase(ctx context.Context) error {
	s.deliberate = true
	if s.own == (backups.Place{}) {
		var before start
		if err := readJSON(s.path(beforeFile), &before); err == nil && before.To == s.o.To {
			s.own = backups.Place{Number: before.Generation, ID: before.ID}
		}
	}
	b, err := readBase(s.path(baseFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		s.o.Log.WarnContext(ctx, "copies of the database begin with a full copy", "error", err)
	case b.To != s.o.To:
	default:
		s.own = backups.Place{Number: b.Generation, ID: b.ID}
		if s.o.Clock().Sub(b.At).Abs() < s.o.Retain/2 { // later it may have been deleted
			s.base = b
		}
	}
	return nil
}

// look finds out whether the target has the own generation, and ends the shipping if it has a later one, too.
func (s *Shipper) look(ctx context.Context) error {
	if s.own == (backups.Place{}) {
		return nil
	}
	now := s.o.Clock()
	again := now.Sub(s.checkedAt).Abs() >= generationCheck
	if !again && !s.o.Target.Local() {
		return nil
	}
	if err := s.there(ctx, s.own); err != nil {
		s.checkedAt = time.Time{}
		return err
	}
	if !again || s.deliberate {
		return nil
	}
	later, err := readGeneration(ctx, s.o.Target, s.own.Number+1)
	switch {
	case err == nil && later.ID == s.claiming: // which this process has not begun wholly
	case err == nil:
		return s.end(s.own)
	case !errors.Is(err, backups.ErrNotFound):
		return fmt.Errorf("look for later generations: %w", err)
	}
	s.checkedAt = now
	return nil
}

// there returns ErrElsewhere if the target does not have a generation of this process.
func (s *Shipper) there(ctx context.Context, place backups.Place) error {
	found, err := readGeneration(ctx, s.o.Target, place.Number)
	switch {
	case errors.Is(err, backups.ErrNotFound), err == nil && found.ID != place.ID:
		return fmt.Errorf("generation %d of this database, at %s, %w", place.Number, s.o.To, ErrElsewhere)
	case err != nil:
		return fmt.Errorf("read its generation: %w", err)
	}
	return nil
}

// startOver forgets the own generation if somebody has asked for that at a target that does not have it.
func (s *Shipper) startOver(ctx context.Context) (asked bool, err error) {
	var wish backups.Beginning
	err = backups.ReadJSON(ctx, s.o.Target, backups.BeginObject, &wish)
	if errors.Is(err, backups.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", backups.BeginObject, err)
	}
	if s.o.Clock().Sub(wish.AskedAt).Abs() > wishFor { // it was about another time
		return false, s.o.Target.Delete(ctx, backups.BeginObject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.chain, s.base, s.waiting, s.spooled = backups.Place{}, nil, nil, nil, false
	return true, nil
}

// begin begins a generation with the database as it is.
func (s *Shipper) begin(ctx context.Context) error {
	upon := s.base
	if err := s.reset(upon); err != nil {
		return err
	}
	if s.claiming == "" {
		s.claiming = rand.Text()
	}
	first := start{To: s.o.To, ID: s.claiming, BeganAt: s.o.Clock().Truncate(time.Millisecond), Layout: backups.Layout}
	if upon != nil {
		first.Base, first.FullAt = &upon.Base, upon.FullAt
	}
	var err error
	if first.Generation, err = s.claim(ctx, first); err != nil {
		return fmt.Errorf("begin a generation: %w", err)
	}
	failpoint.Hit("shipping.claimed")
	if err := s.beginChain(ctx, first, upon); err != nil {
		return err
	}
	return errors.Join(s.o.Target.Delete(ctx, backups.BeginObject), remove(s.path(baseFile)), remove(s.path(beforeFile)))
}

// beginChain measures the database, and writes what begins its generation: what differs from the state that it
// begins upon, or a full copy unless that is too large.
func (s *Shipper) beginChain(ctx context.Context, first start, upon *base) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &chain{state: 1, at: first.BeganAt}
	full := backups.Full{First: 1, Last: 1, PageSize: stores.PageSize, BeganAt: first.BeganAt.UTC(), EndedAt: first.BeganAt.UTC()}
	spools, moved := false, uint32(0)
	err := s.log.Read(ctx, stores.Position{}, func(changes stores.Changes, page func(int64, []byte) error) error {
		if c.end, moved = changes.End, changes.Moved; moved == stores.AllFrames {
			changes.At = nil // a commit may begin the log anew, and the file has everything
		}
		pages, err := s.pages(changes)
		if err != nil {
			return err
		}
		switch {
		case upon != nil:
			c.state = 2
			return s.beginUpon(c, upon, changes, pages, page)
		case int64(pages)*stores.PageSize <= spoolSize:
			spools = true
			return s.spool(c, &full, changes, page)
		}
		c.sums, c.sum, err = s.measure(changes, page, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	first.Pages, first.Sum, first.End = uint32(len(c.sums)), c.sum, c.end
	c.start = first
	if spools {
		err = writeJSON(s.path(fullFile), full)
	}
	failpoint.Hit("shipping.spooled")
	if err == nil {
		err = writeJSON(s.path(chainFile), first)
	}
	if err != nil {
		return err
	}
	s.chain, s.own, s.claiming, s.base, s.spooled, s.deliberate = c, backups.Place{Number: c.Generation, ID: c.ID}, "", nil, spools, false
	s.ends, s.fullAt = []end{{c.state, c.end.Frames}}, time.Time{}
	s.noteMoved(moved) // before it began
	s.status.Generation, s.status.State = c.Generation, c.state
	if upon != nil {
		s.waiting, s.status.WaitingBytes = []uint64{c.state}, s.size(c.state)
		if !s.doubtful {
			s.fullAt = first.FullAt
		}
	}
	s.o.Log.InfoContext(ctx, "copies of the database begin a new generation", "to", s.o.To, "generation", c.Generation)
	return nil
}

// beginUpon measures the database, and writes the pages that differ from a base as the changes to its second state. With
// a full copy instead, a disk that is lost before it is complete would take everything since the generation before.
func (s *Shipper) beginUpon(c *chain, upon *base, changes stores.Changes, pages uint32, page func(int64, []byte) error) error {
	return stores.WriteSynced(s.changes(c.state), func(to io.Writer) error {
		header := c.header(stores.Position{}.Offset(), pages, upon.Sum)
		return backups.Encode(to, header, func(write backups.WritePage) (_ ltx.Checksum, err error) {
			c.sums, c.sum, err = s.measure(changes, page, func(n uint32, content []byte, sum ltx.Checksum) error {
				if n > 1 && int(n) <= len(upon.sums) && upon.sums[n-1] == sum {
					return nil
				}
				return write(n, content) // the first one always: none has no meaning
			})
			return c.sum, err
		})
	})
}

// spool measures the database, which is smaller than spoolSize, and writes a full copy of it in parts.
func (s *Shipper) spool(c *chain, full *backups.Full, changes stores.Changes, page func(int64, []byte) error) (err error) {
	pages, first := make([]byte, 0, partPages*stores.PageSize), uint32(1)
	write := func() error {
		part, err := encodePart(*full, first, pages)
		if err != nil {
			return err
		}
		first, pages = first+uint32(len(pages)/stores.PageSize), pages[:0]
		full.Bytes += int64(len(part))
		full.Parts++
		return stores.WriteSynced(s.spooledPart(full.Parts-1), func(to io.Writer) error {
			_, err := to.Write(part)
			return err
		})
	}
	c.sums, c.sum, err = s.measure(changes, page, func(_ uint32, content []byte, _ ltx.Checksum) error {
		if pages = append(pages, content...); len(pages) == cap(pages) {
			return write()
		}
		return nil
	})
	if err == nil && len(pages) > 0 {
		err = write()
	}
	return err
}

func (s *Shipper) spooledPart(n int) string { return s.path(fmt.Sprintf("full-%06d.part", n)) }

// shipFull ships the full copy that was made when the generation began, if it waits.
func (s *Shipper) shipFull(ctx context.Context) error {
	s.mu.Lock()
	place, spooled := s.own, s.spooled
	s.mu.Unlock()
	if !spooled {
		return nil
	}
	var full backups.Full
	if err := readJSON(s.path(fullFile), &full); err != nil {
		return err
	}
	for part := range full.Parts {
		content, err := os.ReadFile(s.spooledPart(part))
		if err != nil {
			return err
		}
		if err := s.createAgain(ctx, place, place.Part(full.First, part), content); err != nil {
			return err
		}
		failpoint.Hit("shipping.part")
	}
	if err := s.endFull(ctx, place, full); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.spooled || s.own != place { // it was given up meanwhile
		return nil
	}
	s.spooled = false
	err := errors.Join(remove(s.path(fullFile)), stores.SyncDir(s.dir)) // it says that the parts are there
	for part := range full.Parts {
		err = errors.Join(err, remove(s.spooledPart(part)))
	}
	return err
}

// reset removes what the data folder has of a chain, but for the state that the next one begins upon.
func (s *Shipper) reset(upon *base) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clear(upon)
}

// clear is reset with the lock.
func (s *Shipper) clear(upon *base) error {
	s.chain, s.moved, s.ends, s.waiting, s.unsynced, s.spooled = nil, 0, nil, nil, nil, false
	s.status.WaitingBytes, s.status.Whole = 0, false
	if upon != nil {
		if err := upon.write(s.dir); err != nil {
			return err
		}
	}
	// Without its file nothing else is of a chain. Until the next one has its own, that says where copies were made.
	err := os.Rename(s.path(chainFile), s.path(beforeFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	entries, listed := os.ReadDir(s.dir)
	if err := errors.Join(err, listed); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == beforeFile || upon != nil && entry.Name() == baseFile {
			continue
		}
		if err := remove(s.path(entry.Name())); err != nil {
			return err
		}
	}
	return stores.SyncDir(s.dir)
}

// claim creates the object of the next generation, and returns its number.
func (s *Shipper) claim(ctx context.Context, first start) (uint64, error) {
	host, _ := os.Hostname()
	text, err := json.Marshal(backups.Generation{
		ID: first.ID, Host: host, Version: s.o.Version, BeganAt: first.BeganAt.UTC(), Layout: first.Layout, Base: first.Base,
	})
	if err != nil {
		return 0, err
	}
	all, err := backups.Generations(ctx, s.o.Target)
	if err != nil {
		return 0, err
	}
	next := uint64(1)
	if len(all) > 0 {
		last := all[len(all)-1]
		if last.ID == first.ID { // the answer to an earlier attempt was lost
			return last.Number, nil
		}
		next = last.Number + 1
	}
	for ; ; next++ {
		err := s.o.Target.Create(ctx, backups.GenerationObject(next), bytes.NewReader(text), int64(len(text)))
		if err != nil && !errors.Is(err, backups.ErrExists) {
			return 0, err
		}
		if err == nil && !s.o.Target.Local() { // a target without conditions lets two of us do so
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

func writeJSON(path string, value any) error {
	return stores.WriteSynced(path, func(to io.Writer) error { return json.NewEncoder(to).Encode(value) })
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

// remove removes a file, if it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
