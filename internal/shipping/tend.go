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
		*t = tended{}
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
	list, err := backups.List(ctx, s.o.Target, place, "full/")
	if err != nil {
		return err
	}
	fulls, err := s.readFulls(ctx, place, list)
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

// readFulls reads the objects of the full copies of a generation.
func (s *Shipper) readFulls(ctx context.Context, place backups.Place, list *backups.Listing) (fulls []backups.Full, err error) {
	for _, first := range list.Fulls {
		full, err := backups.ReadFull(ctx, s.o.Target, place, first)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place.Full(first), err)
		}
		fulls = append(fulls, full)
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
	for first := uint32(1); ; full.Parts++ {
		pages, err := s.readPart(first)
		if err != nil {
			return err
		}
		if len(pages) == 0 {
			break
		}
		part, err := encodePart(full, first, pages)
		if err == nil { // later changes lie also over what an earlier attempt has written
			err = s.createAgain(ctx, place, place.Part(full.First, full.Parts), part)
		}
		if err != nil {
			return err
		}
		first += uint32(len(pages) / stores.PageSize)
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
	return s.endFull(ctx, place, full)
}

// endFull creates the object that ends a full copy.
func (s *Shipper) endFull(ctx context.Context, place backups.Place, full backups.Full) error {
	text, err := json.Marshal(full)
	if err == nil {
		err = s.createAgain(ctx, place, place.Full(full.First), text)
	}
	if err != nil {
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

// readPart reads the pages of a part of a full copy, from the first one on; none behind the end of the database.
func (s *Shipper) readPart(first uint32) ([]byte, error) {
	pages := make([]byte, 0, partPages*stores.PageSize)
	for len(pages) < cap(pages) {
		piece := pages[len(pages):][:readPages*stores.PageSize]
		n, err := s.log.ReadDatabase(first+uint32(len(pages)/stores.PageSize), piece)
		if err != nil {
			return nil, err
		}
		if pages = pages[:len(pages)+n*stores.PageSize]; n < readPages {
			break
		}
	}
	return pages, nil
}

// encodePart returns a part of a full copy: pages from the first one on.
func encodePart(full backups.Full, first uint32, pages []byte) ([]byte, error) {
	var buffer bytes.Buffer
	state, count := ltx.TXID(full.First+1), uint32(len(pages)/stores.PageSize)
	header := ltx.Header{
		Version: ltx.Version, Flags: ltx.HeaderFlagNoChecksum, PageSize: stores.PageSize, Commit: first + count - 1,
		MinTXID: state, MaxTXID: state, Timestamp: full.BeganAt.UnixMilli(),
	}
	err := backups.Encode(&buffer, header, func(write backups.WritePage) (_ ltx.Checksum, err error) {
		for i := range count {
			if n := first + i; err == nil && n != ltx.LockPgno(stores.PageSize) {
				err = write(n, pages[i*stores.PageSize:][:stores.PageSize])
			}
		}
		return 0, err
	})
	return buffer.Bytes(), err
}

// joinHours joins the changes of each hour before the given one.
func (s *Shipper) joinHours(ctx context.Context, place backups.Place, before time.Time) (err error) {
	list, err := backups.List(ctx, s.o.Target, place, "")
	if err != nil {
		return err
	}
	joined := uint64(1)
	if n := len(list.Hours); n > 0 {
		joined = list.Hours[n-1].Last
	}
	j := new(joining)
	if j.file, err = os.OpenFile(s.path(joiningFile), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.file.Close(), os.Remove(j.file.Name())) }()
	for state := joined + 1; ; state++ {
		if _, listed := list.Each[state]; !listed { // or the list is late
			break
		}
		over, err := s.join(ctx, place, j, place.Each(state), before)
		if err != nil {
			return fmt.Errorf("%s: %w", place.Each(state), err)
		}
		if !over {
			break
		}
	}
	return s.finish(ctx, place, j)
}

// join lays the changes of an object over those of its hour, which it begins after it has finished the hour before. It
// reports false, and does nothing, if the hour is not before the given one.
func (s *Shipper) join(ctx context.Context, place backups.Place, j *joining, name string, before time.Time) (over bool, err error) {
	reading, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	from, err := s.o.Target.Read(reading, name)
	if err != nil {
		return false, err
	}
	defer from.Close()
	decoder := ltx.NewDecoder(from)
	if err := decoder.DecodeHeader(); err != nil {
		return false, err
	}
	at := time.UnixMilli(decoder.Header().Timestamp)
	if !at.Before(before) {
		return false, nil
	}
	if hour := at.Truncate(time.Hour); !j.hour.Equal(hour) {
		if err := s.finish(ctx, place, j); err != nil {
			return false, err
		}
		*j = joining{hour: hour, file: j.file, slots: make(map[uint32]int64)}
	}
	return true, j.add(decoder)
}

// joining is the changes of some states, of which only the latest of each page is kept. Without an hour there are none.
type joining struct {
	hour   time.Time
	file   *os.File
	slots  map[uint32]int64
	header ltx.Header
	sum    ltx.Checksum
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
			slot = int64(len(j.slots)) * stores.PageSize
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

// finish creates the object of an hour, if there are changes.
func (s *Shipper) finish(ctx context.Context, place backups.Place, j *joining) (err error) {
	if j.hour.IsZero() {
		return nil
	}
	file, err := os.OpenFile(j.file.Name()+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	read := func(at int64, to []byte) error {
		_, err := j.file.ReadAt(to, at)
		return err
	}
	if err := backups.Encode(file, j.header, func(write backups.WritePage) (ltx.Checksum, error) {
		return j.sum, writePages(j.slots, j.header.Commit, read, write)
	}); err != nil {
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
		fulls, err := s.readFulls(ctx, g.Place, g.Listing)
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
			return s.deleteWithin(ctx, g, kept{fulls, needed, upon}, now, g.Number == place.Number)
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
	fulls  []backups.Full
	needed uint64   // the first full copy that is, 0 if all are
	bases  []uint64 // states that others begin upon
}

// deleteWithin deletes the objects of a generation that are older than a full copy, and the changes of
// seconds whose hour is there for long enough.
func (s *Shipper) deleteWithin(ctx context.Context, g *backups.Begun, k kept, now time.Time, own bool) error {
	var manifests, old []string
	isWhole := make(map[uint64]bool)
	newest := uint64(0)
	for _, full := range k.fulls {
		newest = max(newest, full.First)
		if isWhole[full.First] = full.First >= k.needed; !isWhole[full.First] {
			manifests = append(manifests, g.Place.Full(full.First))
		}
	}
	if err := s.o.Target.Delete(ctx, manifests...); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.Listing.Parts)) {
		first := g.Listing.Parts[name].First
		// Parts without their object are of an attempt that was not finished, before a later one.
		if !isWhole[first] && (first < newest || first < k.needed || !own) {
			old = append(old, name)
		}
	}
	var hours []backups.Span          // that are kept
	within := make(map[uint64]uint64) // the first states of hours, by a base that is within them
	for _, hour := range g.Listing.Hours {
		for _, state := range k.bases {
			if hour.First <= state && state < hour.Last {
				within[state] = hour.First
			}
		}
		if hour.Last <= k.needed {
			old = append(old, g.Place.Hour(hour.First, hour.Last))
		} else {
			hours = append(hours, hour)
		}
	}
	late := func(end time.Time) bool { return now.Sub(end) < secondsFor }
	n, err := backups.HoursUntil(ctx, s.o.Target, g.Place, hours, late)
	if err != nil {
		return err
	}
	joined := k.needed // the changes of seconds up to this state are not needed any more
	if n > 0 {
		joined = hours[n-1].Last
	}
	for _, state := range slices.Sorted(maps.Keys(g.Listing.Each)) {
		leads := false // to a base, which no hour ends with
		for base, first := range within {
			leads = leads || first <= state && state <= base
		}
		if state <= k.needed || state <= joined && !leads {
			old = append(old, g.Place.Each(state))
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
