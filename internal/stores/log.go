package stores

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"stepboard/models"
)

// PageSize is the size of a page of a folder's database, in bytes.
const PageSize = 4096

// The log begins with a header. Each frame has one, and a page.
const (
	logHeader   = 32
	frameHeader = 24
	frameSize   = frameHeader + PageSize
	// magicLittle and magicBig begin a log. Its checksums are of words in this order of bytes.
	magicLittle, magicBig = 0x377f0682, 0x377f0683
)

// logLimit is how many bytes a log with a reader may have gained when a commit moves it into the
// database. Before that, the reader does so beside the commits.
const logLimit = 32 << 20

// keptLog is how many bytes the file of a log keeps when it was moved into the database: to write over them
// takes less than to make a file grow.
const keptLog = 16 << 20

// LogReader has to see what is committed before it is moved from the log into the database.
type LogReader interface {
	// Collect reads what the log has gained, and then calls move, if that is not nil, before anybody else
	// collects. move returns how many frames of the log the file of the database has then, AllFrames for all.
	// What was read must survive a loss of power before it is called. An error before that lets the log stay as
	// it is. With wait it waits until it can tell; otherwise it may return ErrNotYet.
	Collect(ctx context.Context, wait bool, move func() (frames uint32, err error)) error
}

// AllFrames is how many frames the file of a database has that has the whole log.
const AllFrames = math.MaxUint32

// ErrNotYet means that a LogReader has not begun to read.
var ErrNotYet = errors.New("the log is not read yet")

// Log is the write-ahead log of a folder's database for a reader beside SQLite. Such a reader must
// be there before the first checkpoint: LockFolder's Folder has to have Ships set when it is opened.
type Log struct {
	file *file
	ask  *fileConn
	// database is open until the end: closing any descriptor of the file removes SQLite's locks on it.
	database *os.File
}

// Position is a place in a log, behind some of its frames.
type Position struct {
	// Salts tell a log from the one that was at the same place before; 0 for one without frames.
	Salts  [2]uint32 `json:"salts"`
	Frames uint32    `json:"frames"`
	sums   [2]uint32 // of all before it
}

// Offset returns how many bytes of the log lie before a position.
func (p Position) Offset() int64 { return logHeader + int64(p.Frames)*frameSize }

// PositionAt returns the position behind so many bytes of a log.
func PositionAt(salts [2]uint32, offset int64) Position {
	return Position{Salts: salts, Frames: uint32((offset - logHeader) / frameSize)}
}

// Changes are the pages that were committed between two positions.
type Changes struct {
	// At has, for each page, where the log has its latest content.
	At map[uint32]int64
	// Pages is the size of the database in pages, or 0 if nothing was committed.
	Pages uint32
	End   Position
	// Moved is how many frames of the log the file of the database had, AllFrames for all, when it was looked at.
	Moved uint32
}

// OpenLog opens the log of a folder's database for a reader.
func (s *Stores) OpenLog(ctx context.Context, reader LogReader) (*Log, error) {
	l := &Log{file: s.file}
	var err error
	if l.database, err = os.Open(s.file.path); err != nil {
		return nil, err
	}
	s.file.descriptors = append(s.file.descriptors, l.database)
	if l.ask, err = connect(ctx, s.file.url(readerSettings)); err != nil {
		return nil, err
	}
	s.file.reader.Store(&reader)
	bound := s.file.bound
	s.file.committed.Store(&bound)
	return l, nil
}

// Close ends the reading of the log. It must be called after the last commit, and before the Stores
// are closed.
func (l *Log) Close() error {
	l.file.committed.Store(nil)
	l.file.reader.Store(nil)
	return l.ask.Close()
}

// Size returns the size of the database in pages, without what is only in the log.
func (l *Log) Size() (pages uint32, err error) {
	info, err := l.database.Stat()
	if err != nil {
		return 0, err
	}
	return uint32(info.Size() / PageSize), nil
}

// ReadDatabase reads pages from the file of the database, into a slice of whole pages, from the given
// one on, the first being 1. It returns how many there are. No checkpoint changes them meanwhile.
func (l *Log) ReadDatabase(first uint32, to []byte) (pages int, err error) {
	l.file.moving.RLock()
	defer l.file.moving.RUnlock()
	n, err := l.database.ReadAt(to, int64(first-1)*PageSize)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n / PageSize, err
}

// committed returns the log's salts and how many of its frames belong to transactions that are committed, and how many
// of these the file of the database has. A transaction that failed may have left further ones, with everything in them
// that a committed one has: only SQLite knows.
func (l *Log) committed(ctx context.Context, log io.ReaderAt) (end Position, moved uint32, err error) {
	for {
		before, err := readSalts(log)
		if err != nil {
			return Position{}, 0, err
		}
		frames, inFile, err := checkpointOf(ctx, l.ask, "NOOP")
		if err != nil {
			return Position{}, 0, err
		}
		after, err := readSalts(log)
		if err != nil {
			return Position{}, 0, err
		}
		if before != after {
			continue // it was begun anew
		}
		if moved = uint32(max(inFile, 0)); frames == inFile {
			moved = AllFrames
		}
		return Position{Salts: after, Frames: uint32(max(frames, 0))}, moved, nil
	}
}

// readSalts returns the salts of a log; 0 if it is empty.
func readSalts(log io.ReaderAt) (salts [2]uint32, err error) {
	header := make([]byte, logHeader)
	if _, err := log.ReadAt(header, 0); errors.Is(err, io.EOF) {
		return salts, nil
	} else if err != nil {
		return salts, err
	}
	return [2]uint32{binary.BigEndian.Uint32(header[16:]), binary.BigEndian.Uint32(header[20:])}, nil
}

// Read calls use with what was committed after a position, which the log may not have any more: then
// everything in it is new. page reads what Changes.At says.
func (l *Log) Read(ctx context.Context, from Position, use func(c Changes, page func(at int64, to []byte) error) error) error {
	return l.open(ctx, func(log io.ReaderAt, end Position, moved uint32) error {
		c, err := readLog(log, from, end)
		if err != nil {
			return err
		}
		c.Moved = moved
		return use(c, pagesOf(log))
	})
}

// ReadUpTo is Read of all up to a position, from the beginning of the log. It calls nobody if the log has no such
// position.
func (l *Log) ReadUpTo(ctx context.Context, end Position, use func(c Changes, page func(at int64, to []byte) error) error) error {
	return l.open(ctx, func(log io.ReaderAt, has Position, _ uint32) error {
		if has.Salts != end.Salts || has.Frames < end.Frames {
			return nil
		}
		c, err := readLog(log, Position{}, end)
		if err != nil {
			return err
		}
		return use(c, pagesOf(log))
	})
}

// open calls use with the log, of which nothing can be read if it has no frames, and with what committed returns.
func (l *Log) open(ctx context.Context, use func(log io.ReaderAt, end Position, moved uint32) error) error {
	log, err := os.Open(l.file.path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return use(nil, Position{}, AllFrames)
	}
	if err != nil {
		return err
	}
	defer log.Close()
	end, moved, err := l.committed(ctx, log)
	if err != nil {
		return err
	}
	return use(log, end, moved)
}

// pagesOf returns a function that reads the page at a place in a log.
func pagesOf(log io.ReaderAt) func(at int64, to []byte) error {
	return func(at int64, to []byte) error {
		_, err := log.ReadAt(to, at)
		return err
	}
}

// readLog reads the frames of a log up to a position, and checks them.
func readLog(log io.ReaderAt, from, end Position) (Changes, error) {
	header := make([]byte, logHeader)
	if end.Frames == 0 || from.Salts == end.Salts && from.Frames == end.Frames {
		return Changes{End: Position{Salts: end.Salts, Frames: end.Frames, sums: from.sums}}, nil
	}
	if _, err := log.ReadAt(header, 0); err != nil {
		return Changes{}, err
	}
	magic, size := binary.BigEndian.Uint32(header), binary.BigEndian.Uint32(header[8:])
	if magic != magicLittle && magic != magicBig || size != PageSize {
		return Changes{}, fmt.Errorf("the write-ahead log begins with %x and has pages of %d bytes", magic, size)
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if magic == magicBig {
		order = binary.BigEndian
	}
	at := from
	if from.Salts != end.Salts || from.Frames == 0 {
		at = Position{Salts: end.Salts, sums: logSums(order, [2]uint32{}, header[:24])}
	}
	c := Changes{At: make(map[uint32]int64)}
	frames := io.NewSectionReader(log, at.Offset(), end.Offset()-at.Offset())
	frame := make([]byte, frameSize)
	for ; at.Frames < end.Frames; at.Frames++ {
		if _, err := io.ReadFull(frames, frame); err != nil {
			return Changes{}, fmt.Errorf("frame %d of the write-ahead log: %w", at.Frames, err)
		}
		at.sums = logSums(order, logSums(order, at.sums, frame[:8]), frame[frameHeader:])
		has := func(at int) uint32 { return binary.BigEndian.Uint32(frame[at:]) }
		if has(8) != end.Salts[0] || has(12) != end.Salts[1] || has(16) != at.sums[0] || has(20) != at.sums[1] {
			return Changes{}, fmt.Errorf("frame %d of the write-ahead log is damaged", at.Frames)
		}
		c.At[has(0)], c.Pages = at.Offset()+frameHeader, has(4)
	}
	if c.Pages == 0 {
		return Changes{}, fmt.Errorf("frame %d of the write-ahead log ends no transaction", at.Frames-1)
	}
	c.End = at
	return c, nil
}

// logSums adds bytes, a multiple of 8, to the checksums of a log.
func logSums(order binary.ByteOrder, sums [2]uint32, data []byte) [2]uint32 {
	for ; len(data) >= 8; data = data[8:] {
		sums[0] += order.Uint32(data) + sums[1]
		sums[1] += order.Uint32(data[4:]) + sums[0]
	}
	return sums
}

// Checkpoint moves the log of a folder's database into the database, and empties it if it is large,
// unless somebody reads an older state of the database. Writes go on meanwhile and wait only for the
// last part. If a LogReader reads the log, it has seen everything before.
func (s *Stores) Checkpoint(ctx context.Context) error {
	return models.Wrap("empty the write-ahead log", s.file.checkpoint(ctx))
}

func (f *file) checkpoint(ctx context.Context) error {
	f.checkpointing.Lock()
	defer f.checkpointing.Unlock()
	if err := f.use(ctx, f.reports, func(conn *fileConn) error {
		if err := look(ctx, conn); err != nil { // before it has read something it moves nothing
			return err
		}
		return f.pinned(ctx, func() (frames uint32, err error) {
			f.moving.Lock()
			defer f.moving.Unlock()
			return moveLog(ctx, conn, "PASSIVE")
		})
	}); err != nil {
		return err
	}
	return f.use(ctx, f.writer, func(conn *fileConn) error { return f.empty(ctx, conn, true) })
}

// pinned calls move while no frame of the log can be moved that its reader has not collected. The next
// commit begins the log anew if all were, so the reader has to know that.
func (f *file) pinned(ctx context.Context, move func() (frames uint32, err error)) (err error) {
	reader := f.reader.Load()
	if reader == nil {
		_, err := move()
		return err
	}
	pin, err := connect(ctx, f.url(readerSettings))
	if err != nil {
		return f.failed(err)
	}
	defer func() { err = errors.Join(err, pin.Close()) }()
	if err := pin.run(ctx, "BEGIN"); err != nil {
		return f.failed(err)
	}
	if err := look(ctx, pin); err != nil {
		return f.failed(err)
	}
	return (*reader).Collect(ctx, true, move)
}

// look reads the schema.
func look(ctx context.Context, conn *fileConn) error {
	_, err := conn.all(ctx, "SELECT count(*) FROM sqlite_schema")
	return err
}

// empty moves the log into the database, over the connection that writes.
func (f *file) empty(ctx context.Context, writer *fileConn, wait bool) error {
	if reader := f.reader.Load(); reader != nil {
		return (*reader).Collect(ctx, wait, func() (uint32, error) { return f.restart(ctx, writer) })
	}
	_, err := f.restart(ctx, writer)
	return err
}

// restart moves the log, so that the next commit begins it anew if all is moved.
func (f *file) restart(ctx context.Context, writer *fileConn) (frames uint32, err error) {
	f.moving.Lock()
	defer f.moving.Unlock()
	// It waits for readers whose calls are about to end, but hardly for others: nobody could write.
	if err := writer.run(ctx, "PRAGMA busy_timeout(20)"); err != nil {
		return 0, err
	}
	mode := "RESTART"
	if f.logSize() > keptLog {
		mode = "TRUNCATE"
	}
	frames, err = moveLog(ctx, writer, mode)
	return frames, errors.Join(err, writer.run(ctx, busyTimeout))
}

// moveLog makes a checkpoint, and returns how many frames of the log the file of the database has then.
func moveLog(ctx context.Context, conn *fileConn, mode string) (frames uint32, err error) {
	all, moved, err := checkpointOf(context.WithoutCancel(ctx), conn, mode)
	if err == nil && all == moved && all != -1 {
		return AllFrames, nil
	}
	return uint32(max(moved, 0)), err
}

// checkpointOf makes a checkpoint, of mode NOOP none. It returns how many frames the log has, and how many of
// them the file of the database has, too; -1 for both if it could not be made.
func checkpointOf(ctx context.Context, conn *fileConn, mode string) (frames, moved int64, err error) {
	answer, err := conn.all(ctx, "PRAGMA wal_checkpoint("+mode+")")
	if err != nil {
		return 0, 0, err
	}
	frames, _ = answer[0][1].(int64)
	moved, _ = answer[0][2].(int64)
	return frames, moved, nil
}

// bound moves a log that has become large into the database, over the connection that writes. An error
// is that of the next one to use the file.
func (f *file) bound(writer *fileConn) {
	if f.logSize() < f.limit.Load()+logLimit {
		return
	}
	_ = f.empty(context.Background(), writer, false)
	f.limit.Store(f.logSize()) // somebody may read an older state
}
