package shipping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/backups"
	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/internal/stores"
)

const (
	// fullEvery is the time between two full copies.
	fullEvery = 24 * time.Hour
	// secondsFor is how long the changes of each second stay after those of their hour are there.
	secondsFor = 24 * time.Hour
	// partPages is how many pages a part of a full copy has, and readPages how many are read while
	// nobody can move the log into the database.
	partPages, readPages = 2048, 256
	// joiningFile has the pages of an hour that is being joined.
	joiningFile = "joining.new"
)

// tended is what rounds of Tend remember of the own generation.
type tended struct {
	place backups.Place
	// joinedAt and deletedAt are the hours in which changes were joined and objects deleted last.
	joinedAt, deletedAt time.Time
	fulls               map[string]backups.Full
	hours               map[string]time.Time // when the changes of an hour end
}

// tend is Tend without noting the error.
func (s *Shipper) tend(ctx context.Context) error {
	s.mu.Lock()
	place, rests := s.own, s.chain == nil || s.spooled || s.status.Superseded
	s.mu.Unlock()
	if rests {
		return nil
	}
	t := &s.tended
	if t.place != place {
		*t = tended{fulls: make(map[string]backups.Full), hours: make(map[string]time.Time)}
		if err := s.findFulls(ctx, place); err != nil {
			return fmt.Errorf("look for full copies: %w", err)
		}
		t.place = place
	}
	now := s.o.Clock()
	s.mu.Lock()
	fullAt := s.fullAt
	s.mu.Unlock()
	if now.Sub(fullAt) >= fullEvery {
		if err := s.full(ctx, place, !fullAt.IsZero()); err != nil {
			return fmt.Errorf("make a full copy: %w", err)
		}
	}
	hour := now.Truncate(time.Hour)
	if !s.writes(place) {
		return nil
	}
	if !t.joinedAt.Equal(hour) {
		if err := s.joinHours(ctx, place, hour); err != nil {
			return fmt.Errorf("join the changes of an hour: %w", err)
		}
		t.joinedAt = hour
	}
	if !t.deletedAt.Equal(hour) && s.writes(place) {
		t.deletedAt = hour
		err := s.there(ctx, place) // otherwise what is there may be another one's
		if err == nil {
			err = s.deleteOld(ctx, place, now)
		}
		if err != nil {
			s.mu.Lock()
			s.status.DeleteErrors++
			s.mu.Unlock()
			return fmt.Errorf("delete old copies: %w", err)
		}
	}
	return nil
}

// findFulls finds out when the own generation got its last full copy.
func (s *Shipper) findFulls(ctx context.Context, place backups.Place) error {
	fulls, err := s.readFulls(ctx, place)
	for _, full := range fulls {
		s.haveFull(place, full)
	}
	return err
}

// haveFull notes that a generation has a full copy, if it is still the one that is written.
func (s *Shipper) haveFull(place backups.Place, full backups.Full) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chain == nil || s.own != place {
		return
	}
	s.status.Whole, s.doubtful = true, false
	if full.EndedAt.After(s.status.FullAt) {
		s.status.FullAt = full.EndedAt
	}
	if full.BeganAt.After(s.fullAt) {
		s.fullAt = full.BeganAt
	}
}

// readFulls returns the full copies of a generation by the names of their objects.
func (s *Shipper) readFulls(ctx context.Context, place backups.Place) (map[string]backups.Full, error) {
	objects, err := s.o.Target.List(ctx, place.Folder()+"full/")
	if err != nil {
		return nil, err
	}
	fulls := make(map[string]backups.Full)
	for _, object := range objects {
		if !strings.HasSuffix(object.Name, ".json") {
			continue
		}
		full, ok := s.tended.fulls[object.Name]
		if !ok {
			text, err := readAll(ctx, s.o.Target, object.Name, 4096)
			if err == nil {
				err = json.Unmarshal(text, &full)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", object.Name, err)
			}
			s.tended.fulls[object.Name] = full
		}
		fulls[object.Name] = full
	}
	return fulls, nil
}

// full makes a full copy: the pages of the file of the database, while changes are moved into it. A later one than
// the first proves before that the chain is right.
func (s *Shipper) full(ctx context.Context, place backups.Place, later bool) error {
	if later {
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	if err := s.o.Stores.Checkpoint(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	full := backups.Full{First: s.moved, PageSize: stores.PageSize, BeganAt: s.o.Clock().UTC()}
	s.mu.Unlock()
	if full.First == 0 {
		return errors.New("somebody reads an older state of the database")
	}
	for first, more := uint32(1), true; more; full.Parts++ {
		var part []byte
		var err error
		if part, first, more, err = s.part(full, first); err != nil {
			return err
		}
		if part == nil {
			break
		}
		// What an earlier attempt has written is as good: later changes lie over both.
		if err := s.create(ctx, place, place.Part(full.First, full.Parts), part); err != nil && !errors.Is(err, backups.ErrExists) {
			return err
		}
		full.Bytes += int64(len(part))
		failpoint.Hit("shipping.part")
	}
	s.mu.Lock()
	if s.chain == nil || s.own != place {
		s.mu.Unlock()
		return errEnded
	}
	full.Last, full.EndedAt = s.chain.state, s.chain.at.UTC()
	if full.EndedAt.Before(full.BeganAt) { // nothing was committed since
		full.EndedAt = full.BeganAt
	}
	s.mu.Unlock()
	for !s.has(place, full.Last) {
		if err := pause.For(ctx, s.o.Interval); err != nil {
			return err
		}
	}
	if !s.writes(place) {
		return errEnded
	}
	text, err := json.Marshal(full)
	if err != nil {
		return err
	}
	if err := s.create(ctx, place, place.Full(full.First), text); err != nil && !errors.Is(err, backups.ErrExists) {
		return err
	}
	failpoint.Hit("shipping.full")
	s.haveFull(place, full)
	return nil
}

// has reports whether the target has all changes up to a state, or will not get them.
func (s *Shipper) has(place backups.Place, state uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain == nil || s.own != place || len(s.waiting) == 0 || s.waiting[0] > state
}

// part returns a part of a full copy, nil for none, and the first page of the next one.
func (s *Shipper) part(full backups.Full, first uint32) (part []byte, next uint32, more bool, err error) {
	pages := make([]byte, 0, partPages*stores.PageSize)
	for more = true; more && len(pages) < cap(pages); {
		piece := pages[len(pages):][:readPages*stores.PageSize]
		n, err := s.log.ReadDatabase(first+uint32(len(pages)/stores.PageSize), piece)
		if err != nil {
			return nil, 0, false, err
		}
		pages, more = pages[:len(pages)+n*stores.PageSize], n == readPages
	}
	count := uint32(len(pages) / stores.PageSize)
	if count == 0 {
		return nil, first, false, nil
	}
	part, err = encodePart(full, first, pages)
	return part, first + count, more, err
}

// encodePart returns a part of a full copy: pages from the first one on.
func encodePart(full backups.Full, first uint32, pages []byte) ([]byte, error) {
	var buffer bytes.Buffer
	encoder, err := ltx.NewEncoder(&buffer)
	if err != nil {
		return nil, err
	}
	state, count := ltx.TXID(full.First+1), uint32(len(pages)/stores.PageSize)
	err = encoder.EncodeHeader(ltx.Header{
		Version: ltx.Version, Flags: ltx.HeaderFlagNoChecksum, PageSize: stores.PageSize, Commit: first + count - 1,
		MinTXID: state, MaxTXID: state, Timestamp: full.BeganAt.UnixMilli(),
	})
	for i := range count {
		if n := first + i; err == nil && n != ltx.LockPgno(stores.PageSize) {
			err = encoder.EncodePage(ltx.PageHeader{Pgno: n}, pages[i*stores.PageSize:][:stores.PageSize])
		}
	}
	if err == nil {
		err = encoder.Close()
	}
	return buffer.Bytes(), err
}

// numbersOf returns the states that the name of an object of changes has: one, or two of an hour.
func numbersOf(name string) (first, last uint64) {
	name = name[strings.LastIndex(name, "/")+1:]
	if n, _ := fmt.Sscanf(name, "%016x-%016x.ltx", &first, &last); n == 2 {
		return first, last
	}
	if n, _ := fmt.Sscanf(name, "%016x.ltx", &first); n == 1 {
		return first, first
	}
	return 0, 0
}

// joinHours joins the changes of each hour before the given one.
func (s *Shipper) joinHours(ctx context.Context, place backups.Place, before time.Time) error {
	hours, err := s.o.Target.List(ctx, place.Folder()+"hour/")
	if err != nil {
		return err
	}
	joined := uint64(1)
	for _, hour := range hours {
		_, last := numbersOf(hour.Name)
		joined = max(joined, last)
	}
	each, err := s.o.Target.List(ctx, place.Folder()+"each/")
	if err != nil {
		return err
	}
	var j *joining
	for _, object := range each {
		state, _ := numbersOf(object.Name)
		if state <= joined {
			continue
		}
		if state != joined+1 {
			break // the list is late
		}
		var over bool
		if j, over, err = s.join(ctx, place, j, object.Name, before); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", object.Name, err), j.close())
		}
		if !over {
			break
		}
		joined = state
	}
	if j == nil {
		return nil
	}
	return s.finish(ctx, place, j)
}

// join lays the changes of an object over those of its hour, which it begins, and finishes the hour before
// if there is one. It reports false, and does nothing, if the hour is not before the given one.
func (s *Shipper) join(ctx context.Context, place backups.Place, j *joining, name string, before time.Time) (_ *joining, over bool, err error) {
	reading, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	from, err := s.o.Target.Read(reading, name)
	if err != nil {
		return j, false, err
	}
	defer from.Close()
	decoder := ltx.NewDecoder(from)
	if err := decoder.DecodeHeader(); err != nil {
		return j, false, err
	}
	at := time.UnixMilli(decoder.Header().Timestamp)
	if !at.Before(before) {
		return j, false, nil
	}
	if hour := at.Truncate(time.Hour); j == nil || !j.hour.Equal(hour) {
		if j != nil {
			if err := s.finish(ctx, place, j); err != nil {
				return nil, false, err
			}
		}
		if j, err = newJoining(s.path(joiningFile), hour); err != nil {
			return nil, false, err
		}
	}
	return j, true, j.add(decoder)
}

// timeOf reads when the changes of an object were collected.
func (s *Shipper) timeOf(ctx context.Context, name string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	from, err := s.o.Target.Read(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	defer from.Close()
	header, _, err := ltx.PeekHeader(from)
	return time.UnixMilli(header.Timestamp), err
}

// joining is the changes of some states, of which only the latest of each page is kept.
type joining struct {
	hour   time.Time
	file   *os.File
	slots  map[uint32]int64
	used   int64
	header ltx.Header
	sum    ltx.Checksum
}

func newJoining(path string, hour time.Time) (*joining, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	return &joining{hour: hour, file: file, slots: make(map[uint32]int64)}, err
}

func (j *joining) close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.file.Close(), os.Remove(j.file.Name()))
}

// add lays the changes of an object, whose header was read, over those that are there.
func (j *joining) add(decoder *ltx.Decoder) error {
	header := decoder.Header()
	if header.PageSize != stores.PageSize {
		return fmt.Errorf("its pages have %d bytes", header.PageSize)
	}
	var page ltx.PageHeader
	content := make([]byte, stores.PageSize)
	for {
		if err := decoder.DecodePage(&page, content); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		slot, ok := j.slots[page.Pgno]
		if !ok {
			slot = j.used
			j.used += stores.PageSize
			j.slots[page.Pgno] = slot
		}
		if _, err := j.file.WriteAt(content, slot); err != nil {
			return err
		}
	}
	if err := decoder.Close(); err != nil {
		return err
	}
	if j.header.MinTXID == 0 {
		j.header = header
		j.header.WALOffset, j.header.WALSize, j.header.WALSalt1, j.header.WALSalt2 = 0, 0, 0, 0
	}
	j.header.MaxTXID, j.header.Commit, j.header.Timestamp = header.MaxTXID, header.Commit, header.Timestamp
	j.sum = decoder.Trailer().PostApplyChecksum
	return nil
}

// finish creates the object of an hour.
func (s *Shipper) finish(ctx context.Context, place backups.Place, j *joining) (err error) {
	defer func() { err = errors.Join(err, j.close()) }()
	file, err := os.OpenFile(j.file.Name()+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	encoder, err := ltx.NewEncoder(file)
	if err != nil {
		return err
	}
	if err := encoder.EncodeHeader(j.header); err != nil {
		return err
	}
	content := make([]byte, stores.PageSize)
	for _, n := range slices.Sorted(maps.Keys(j.slots)) {
		if n > j.header.Commit {
			continue
		}
		if _, err := j.file.ReadAt(content, j.slots[n]); err != nil {
			return err
		}
		if err := encoder.EncodePage(ltx.PageHeader{Pgno: n}, content); err != nil {
			return err
		}
	}
	encoder.SetPostApplyChecksum(j.sum)
	if err := encoder.Close(); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	name := place.Hour(uint64(j.header.MinTXID), uint64(j.header.MaxTXID))
	if err := s.write(ctx, place, name, file, size); err != nil && !errors.Is(err, backups.ErrExists) {
		return err
	}
	failpoint.Hit("shipping.joined")
	return nil
}

// deleteOld deletes the objects that no restore to the last day, or to an hour of the time that is
// retained, needs any more.
func (s *Shipper) deleteOld(ctx context.Context, place backups.Place, now time.Time) error {
	all, err := backups.Generations(ctx, s.o.Target)
	if err != nil {
		return err
	}
	oldest := now.Add(-s.o.Retain)
	replaced := false                  // whether a later generation can be restored as of oldest
	bases := make(map[uint64][]uint64) // the states of a generation that later ones begin upon which are kept
	var work []func() error            // the oldest generation goes first: it must not come back as the latest of a time
	for _, g := range slices.Backward(all) {
		if g.Number > place.Number {
			return s.end(place)
		}
		upon := bases[g.Number]
		if replaced && len(upon) == 0 {
			work = append(work, func() error { return s.deleteGeneration(ctx, g.Number) })
			continue
		}
		fulls, err := s.readFulls(ctx, g.Place())
		if err != nil {
			return err
		}
		needed := uint64(0) // the latest full copy that can be restored as of oldest, and upon which the bases stand
		for _, full := range fulls {
			if !full.EndedAt.After(oldest) && (len(upon) == 0 || full.Last <= slices.Min(upon)) {
				needed = max(needed, full.First)
			}
		}
		switch {
		case needed > 0:
			replaced = true
		case g.Base != nil:
			bases[g.Base.Generation] = append(bases[g.Base.Generation], g.Base.State)
		}
		work = append(work, func() error {
			return s.deleteWithin(ctx, g.Place(), kept{fulls, needed, upon}, now, g.Number == place.Number)
		})
	}
	for _, do := range slices.Backward(work) {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// kept is what is kept of a generation.
type kept struct {
	fulls  map[string]backups.Full
	needed uint64   // the first full copy that is, 0 if all are
	bases  []uint64 // states that others begin upon
}

// deleteWithin deletes the objects of a generation that are older than a full copy, and the changes of
// seconds whose hour is there for long enough.
func (s *Shipper) deleteWithin(ctx context.Context, place backups.Place, k kept, now time.Time, own bool) error {
	var manifests, old []string
	isWhole := make(map[uint64]bool)
	newest := uint64(0)
	for name, full := range k.fulls {
		newest = max(newest, full.First)
		if isWhole[full.First] = full.First >= k.needed; !isWhole[full.First] {
			manifests = append(manifests, name)
		}
	}
	if err := s.o.Target.Delete(ctx, manifests...); err != nil {
		return err
	}
	objects, err := s.o.Target.List(ctx, place.Folder()+"full/")
	if err != nil {
		return err
	}
	for _, object := range objects {
		first, _ := numbersOf(strings.Replace(object.Name, "-", ".ltx", 1))
		// Parts without their object are of an attempt that was not finished, before a later one.
		if strings.HasSuffix(object.Name, ".ltx") && !isWhole[first] && (first < newest || first < k.needed || !own) {
			old = append(old, object.Name)
		}
	}
	hours, err := s.o.Target.List(ctx, place.Folder()+"hour/")
	if err != nil {
		return err
	}
	joined := k.needed                // the changes of seconds up to this state are not needed any more
	within := make(map[uint64]uint64) // the first states of hours, by a base that is within them
	for _, object := range hours {
		first, last := numbersOf(object.Name)
		for _, state := range k.bases {
			if first <= state && state < last {
				within[state] = first
			}
		}
		if last <= k.needed {
			old = append(old, object.Name)
			continue
		}
		end, ok := s.tended.hours[object.Name]
		if !ok {
			if end, err = s.timeOf(ctx, object.Name); err != nil {
				return err
			}
			s.tended.hours[object.Name] = end
		}
		if now.Sub(end) >= secondsFor {
			joined = max(joined, last)
		}
	}
	each, err := s.o.Target.List(ctx, place.Folder()+"each/")
	if err != nil {
		return err
	}
	for _, object := range each {
		state, _ := numbersOf(object.Name)
		leads := false // to a base, which no hour ends with
		for base, first := range within {
			leads = leads || first <= state && state <= base
		}
		if state <= k.needed || state <= joined && !leads {
			old = append(old, object.Name)
		}
	}
	return s.o.Target.Delete(ctx, old...)
}

// deleteGeneration deletes all objects of a generation, those that say that something is whole first.
func (s *Shipper) deleteGeneration(ctx context.Context, generation uint64) error {
	objects, err := s.o.Target.List(ctx, backups.Place{Number: generation}.Folder())
	if err != nil {
		return err
	}
	var first, then []string
	for _, object := range objects {
		switch {
		case object.Name == backups.GenerationObject(generation):
		case strings.HasSuffix(object.Name, ".json"):
			first = append(first, object.Name)
		default:
			then = append(then, object.Name)
		}
	}
	return errors.Join(s.o.Target.Delete(ctx, first...), s.o.Target.Delete(ctx, then...), s.o.Target.Delete(ctx, backups.GenerationObject(generation)))
}
