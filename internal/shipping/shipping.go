// Package shipping copies what is committed to a data folder's database elsewhere, as package backups
// describes it: the changes of each second, full copies, and the changes of hours.
package shipping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/internal/stores"
	"stepboard/models"
)

const (
	// logSize is how many bytes of the log are collected when it is moved into the database, and
	// waitingLogSize the size of its file while changes wait for the target: only then are there more of them.
	logSize, waitingLogSize = 4 << 20, 20 << 20
	// generationCheck is how often a process asks whether another one has begun a generation.
	generationCheck = 10 * time.Second
	// TendEvery is the time between two rounds of Tend, and tendAgain that after one that has failed.
	TendEvery = time.Second
	tendAgain = 10 * time.Second
	// readBack is how long a process waits before it believes that it has begun a generation: a target
	// without conditional writes lets another one overwrite it.
	readBack = 2 * time.Second
	// requestTimeout bounds one request to the target.
	requestTimeout = time.Minute
	// closeTimeout is how long the end of the process waits for the target.
	closeTimeout = 5 * time.Second
)

// ErrSuperseded means that another process has begun a later generation.
var ErrSuperseded = errors.New("another process makes the copies now: its database is a later one, or both use the same place")

// Options are what a Shipper needs.
type Options struct {
	Stores *stores.Stores
	Target backups.Target
	// Backup has To, the target's address, for people and to notice that it is another one, Interval, the shortest
	// time between two objects of changes, Retain and MaxLag.
	config.Backup

	Version string
	Clock   models.Clock
	Log     *slog.Logger
	// Pause waits; ReadBack is the const readBack. Both are for tests.
	Pause    func(context.Context, time.Duration) error
	ReadBack time.Duration
}

// Shipper copies what is committed. Safe for concurrent use.
type Shipper struct {
	o   Options
	dir string
	log *stores.Log

	// mu is held while the log is read. Nothing is asked of the target meanwhile.
	mu sync.Mutex
	// known says that chain was looked for; it is nil if there is none.
	known bool
	chain *chain
	// own is the generation of the chain, or the one that the database has come from; zero for none. base is the
	// state of that upon which a generation may begin, nil if none.
	own  backups.Place
	base *base
	// deliberate says that no chain was found at the start: the next generation begins whoever has begun a later one.
	deliberate bool
	// doubtful says that a full copy must follow at once, as the checksums of base may be wrong.
	doubtful bool
	// moved is the state that the file of the database has at least, or 0, and ends are where the states after it
	// end that the log has.
	moved uint64
	ends  []end
	// waiting are the states whose changes the target does not have, and unsynced those whose changes may not survive
	// a loss of power. spooled says that the first full copy waits, too.
	waiting, unsynced []uint64
	spooled           bool
	// fullAt is when the last full copy began, of the generation or of those below its base.
	fullAt time.Time

	status    Status
	shippedAt time.Time // everything that was committed before is at the target
	checkedAt time.Time
	// claiming is the id of the generation that is being begun.
	claiming string
	tended   tended
	// stepError and tendError are those of the last rounds.
	stepError, tendError error
	tendedAt             time.Time
}

// end is where a state ends in the log, in frames.
type end struct {
	state  uint64
	frames uint32
}

// New returns a Shipper that reads the log of stores whose Folder has Ships. Nothing was committed
// yet that the log does not have.
func New(ctx context.Context, o Options) (*Shipper, error) {
	if o.Pause == nil {
		o.Pause, o.ReadBack = pause.For, readBack
	}
	s := &Shipper{o: o, dir: o.Stores.Folder.Path(waitingFolder), shippedAt: o.Clock()}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := stores.SyncDir(o.Stores.Folder.Dir); err != nil {
		return nil, err
	}
	unfinished, err := filepath.Glob(s.path("*.new"))
	for _, path := range unfinished {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return nil, err
	}
	s.log, err = o.Stores.OpenLog(ctx, s)
	return s, err
}

// Step ships what was committed since the last step, in one object, or what waits longest. Its error is
// in the log and in Status. At most a few requests.
func (s *Shipper) Step(ctx context.Context) error {
	err := s.step(ctx)
	s.note(ctx, &s.stepError, err)
	return err
}

// Tend makes a full copy if it is time, joins the changes of the hours that are over, and deletes what
// no restore needs any more. Its error is in the log and in Status. A full copy reads and ships the
// database.
func (s *Shipper) Tend(ctx context.Context) error {
	if s.tendError != nil && s.o.Clock().Sub(s.tendedAt).Abs() < tendAgain {
		return s.tendError
	}
	s.tendedAt = s.o.Clock()
	err := s.tend(ctx)
	s.note(ctx, &s.tendError, err)
	return err
}

// Close ships what is committed, as far as the target takes it within closeTimeout, and ends. Step and
// Tend must have returned. Nothing may be committed afterwards, or the next start begins a generation.
func (s *Shipper) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.Collect(ctx, true, nil)
	if err == nil && s.first() != 0 {
		err = s.there(ctx, s.own)
	}
	for err == nil && s.first() != 0 {
		err = s.ship(ctx)
	}
	if err != nil {
		s.o.Log.WarnContext(ctx, "what was committed last waits in the data folder for the next start", "error", err)
	}
	return s.log.Close()
}

// Status returns how the copies stand.
func (s *Shipper) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Behind = max(0, s.o.Clock().Sub(s.shippedAt))
	return status
}

// note notes the error of a round in place of that of the one before, and logs it if it is another.
func (s *Shipper) note(ctx context.Context, of *error, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	before := *of
	*of = err
	s.status.Err = errors.Join(s.stepError, s.tendError)
	if err != nil {
		s.status.Errors++
	}
	s.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.o.Log.ErrorContext(ctx, "copies of the database can't be made", "to", s.o.To, "error", err)
	case err == nil && before != nil:
		s.o.Log.InfoContext(ctx, "copies of the database are made again", "to", s.o.To)
	}
}

// step is Step without noting the error.
func (s *Shipper) step(ctx context.Context) error {
	began := s.o.Clock()
	looked, ready, err := s.prepare(ctx)
	if !ready || err != nil {
		return errors.Join(looked, err)
	}
	collects := s.first() == 0 // otherwise the log may have more than waits
	if collects {
		if err := s.Collect(ctx, true, nil); err != nil {
			return err
		}
	}
	if looked == nil {
		looked = s.shipFull(ctx)
	}
	if looked == nil {
		looked = s.ship(ctx)
	}
	s.mu.Lock()
	if looked == nil && collects && len(s.waiting) == 0 && s.status.Whole && s.chain != nil {
		s.shippedAt = began
	}
	large := s.chain != nil && s.moved != s.chain.state && s.chain.end.Offset() >= logSize
	s.mu.Unlock()
	if _, log := s.o.Stores.FileSizes(); large || log >= waitingLogSize {
		err = s.o.Stores.Checkpoint(ctx)
	}
	return errors.Join(looked, err)
}

// prepare finds the chain to go on with, or begins one. looked says why nothing can be shipped.
func (s *Shipper) prepare(ctx context.Context) (looked error, ready bool, err error) {
	s.mu.Lock()
	if !s.known {
		err = s.know(ctx)
	}
	superseded := s.status.Superseded
	s.mu.Unlock()
	if superseded {
		err = ErrSuperseded
	}
	if err != nil {
		return nil, false, err
	}
	looked = s.look(ctx)
	if errors.Is(looked, ErrElsewhere) {
		asked, err := s.startOver(ctx)
		if err != nil {
			return looked, false, err
		}
		if asked {
			looked = nil
		}
	}
	if s.exists() || looked != nil {
		return looked, s.exists(), nil
	}
	for s.first() != 0 { // the state to begin upon
		if err := s.ship(ctx); err != nil {
			return nil, false, err
		}
	}
	return nil, true, s.begin(ctx)
}

func (s *Shipper) exists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain != nil
}

// first returns the first state that waits for the target, or 0.
func (s *Shipper) first() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return 0
	}
	return s.waiting[0]
}

// end ends the shipping, because another process has begun a generation after one of this process. If this one has
// another by now, nothing ends.
func (s *Shipper) end(place backups.Place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != place {
		return errEnded
	}
	s.status.Superseded = true
	return errors.Join(ErrSuperseded, s.clear(nil), remove(s.path(beforeFile)))
}

// errEnded means that a generation was given up while it was written.
var errEnded = errors.New("its generation has ended")

// writes reports whether the chain is that of a generation.
func (s *Shipper) writes(place backups.Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain != nil && s.own == place
}

// ship creates the object of the first state that waits, if any. What has the same content exists because an
// answer was lost.
func (s *Shipper) ship(ctx context.Context) error {
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return nil
	}
	state, place := s.waiting[0], s.own
	err := s.sync() // otherwise the target could have what this folder has lost
	var text []byte
	if err == nil {
		text, err = os.ReadFile(s.changes(state))
	}
	if err != nil && s.chain == nil { // a full copy has what can't be read, too
		s.base, s.waiting, s.status.WaitingBytes, s.claiming = nil, nil, 0, ""
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	name := place.Each(state)
	err = s.create(ctx, place, name, text)
	if errors.Is(err, backups.ErrExists) {
		var found []byte
		if found, err = backups.Read(ctx, s.o.Target, name, int64(len(text))+1); err == nil && !bytes.Equal(found, text) {
			return s.end(place)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	failpoint.Hit("shipping.shipped")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 || s.waiting[0] != state || s.own != place { // the chain was given up meanwhile
		return nil
	}
	// A start goes on from there. It replaces the one before, so that there is always one.
	err = os.Rename(s.changes(state), s.path(shippedFile))
	s.waiting = s.waiting[1:]
	if s.chain != nil && s.chain.Base != nil && !s.doubtful { // what it begins upon is there, too
		s.status.Whole = true
	}
	s.status.WaitingBytes -= int64(len(text))
	s.status.ShippedAt = s.o.Clock()
	return err
}

// create creates an object of a generation, and counts it.
func (s *Shipper) create(ctx context.Context, place backups.Place, name string, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.write(ctx, place, name, bytes.NewReader(content), int64(len(content)))
}

// createAgain is create where what an earlier attempt has written is as good.
func (s *Shipper) createAgain(ctx context.Context, place backups.Place, name string, content []byte) error {
	err := s.create(ctx, place, name, content)
	if errors.Is(err, backups.ErrExists) {
		return nil
	}
	return err
}

// write is create of what a reader has. Where it costs next to nothing, it looks before and after it whether the
// generation is there: a disk may be taken away at any moment, and leave the folder below it.
func (s *Shipper) write(ctx context.Context, place backups.Place, name string, from io.ReadSeeker, size int64) error {
	local := s.o.Target.Local()
	if local {
		if err := s.there(ctx, place); err != nil {
			return err
		}
	}
	err := s.o.Target.Create(ctx, name, from, size)
	if local && (err == nil || errors.Is(err, backups.ErrExists)) {
		err = errors.Join(err, s.there(ctx, place))
	}
	if err == nil {
		s.mu.Lock()
		s.status.Objects++
		s.status.ObjectBytes += size
		s.mu.Unlock()
	}
	return err
}

// readGeneration reads the object of a generation.
func readGeneration(ctx context.Context, t backups.Target, number uint64) (g backups.Generation, err error) {
	err = backups.ReadJSON(ctx, t, backups.GenerationObject(number), &g)
	return g, err
}

// Status is how the copies stand.
type Status struct {
	// Generation is the number of the own one, and State that of what was collected last.
	Generation, State uint64
	// Whole reports that the generation has a full copy: without one nothing can be restored.
	Whole bool
	// Behind is for how long something may be committed that could not be restored.
	Behind time.Duration
	// WaitingBytes is the size of the changes that wait in the data folder.
	WaitingBytes int64
	// ShippedAt is when the target got changes last, and FullAt when the last full copy ended; zero
	// for never since the start.
	ShippedAt, FullAt time.Time
	// Superseded reports that another process has begun a later generation: nothing is shipped.
	Superseded bool
	// Err is the error of the last round, if any.
	Err error
	// Counters since the start: objects that were created, their bytes, rounds with an error, and
	// rounds in which something could not be deleted.
	Objects, ObjectBytes, Errors, DeleteErrors int64
}
