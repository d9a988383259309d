package backups

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/superfly/ltx"
)

// body is what was read of an object before its turn.
type body struct {
	text  []byte
	large bool // there was more
	err   error
}

// errEnd means that an object can't be used or does not exist, as far as is known already.
var errEnd = errors.New("is not there")

// fetch yields the steps with their objects, and reads those of the next steps meanwhile.
func (r *restorer) fetch(ctx context.Context) iter.Seq2[step, body] {
	return func(yield func(step, body) bool) {
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type reading struct {
			step
			body chan body
		}
		var queue []reading
		next, stop := iter.Pull(r.steps())
		defer stop()
		for {
			for len(queue) < ahead {
				s, _ := next()
				one := reading{s, make(chan body, 1)}
				running.Go(func() { one.body <- r.readAhead(ctx, s) })
				queue = append(queue, one)
			}
			one := queue[0]
			queue = queue[1:]
			if !yield(one.step, <-one.body) {
				return
			}
		}
	}
}

// readAhead reads an object, unless it is large.
func (r *restorer) readAhead(ctx context.Context, s step) (b body) {
	if r.bad[s.name] != nil {
		return body{err: errEnd}
	}
	if s.Size > aheadBytes {
		return body{large: true}
	}
	b.text, b.err = read(ctx, r.t, s.name, aheadBytes+1)
	b.large = len(b.text) > aheadBytes
	if errors.Is(b.err, ErrNotFound) && s.Size < 0 && !s.part {
		b.err = errEnd
	} else if errors.Is(b.err, ErrNotFound) {
		b.err = damaged(s.name, "%w", ErrNotFound)
	}
	return b
}

// applyStep applies an object, or reports that it is later than the restored time. Then it was read
// to its end, too, as only that proves when it was collected.
func (r *restorer) applyStep(ctx context.Context, s step, b body) (later bool, err error) {
	read := int64(len(b.text))
	switch {
	case b.err != nil:
		return false, b.err
	case b.large:
		later, read, err = r.applyLarge(ctx, s)
	default:
		later, err = r.decode(s, bytes.NewReader(b.text))
	}
	if err != nil {
		return false, err
	}
	r.done.Objects++
	r.done.Bytes += read
	if s.part && r.done.Objects == r.full.Parts && r.done.Bytes != r.full.Bytes {
		return false, r.badFull(fmt.Errorf("its parts have %d bytes, not %d", r.done.Bytes, r.full.Bytes))
	}
	r.progress(r.done)
	return later, nil
}

// applyLarge applies an object while it is read. After an error of reading it begins again: what it
// has written already is written once more.
func (r *restorer) applyLarge(ctx context.Context, s step) (later bool, bytes int64, err error) {
	err = again(ctx, r.t, func() error {
		from, err := r.t.Read(ctx, s.name)
		if errors.Is(err, ErrNotFound) {
			return damaged(s.name, "%w", err)
		}
		if err != nil {
			return err
		}
		defer from.Close()
		counted := &countingReader{from: from}
		later, err = r.decode(s, bufio.NewReaderSize(counted, 64<<10))
		bytes = counted.n
		if counted.err != nil {
			return counted.err
		}
		return err
	})
	return later, bytes, err
}

// countingReader remembers why it could not be read to its end.
type countingReader struct {
	from io.Reader
	n    int64
	err  error
}

func (c *countingReader) Read(p []byte) (n int, err error) {
	n, err = c.from.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// decode reads an object and writes its pages, unless it is later than the restored time. Objects
// are written by who may write to the target: nothing in them may cost much memory or space.
func (r *restorer) decode(s step, from io.Reader) (later bool, err error) {
	decoder := ltx.NewDecoder(&frames{from: from, pageSize: r.full.PageSize, left: ltx.HeaderSize})
	decoder.SetRetainPageIndex(false)
	if err := decoder.DecodeHeader(); err != nil {
		return false, damaged(s.name, "is damaged: %w", err)
	}
	h := decoder.Header()
	switch {
	case h.MinTXID != ltx.TXID(s.First) || h.MaxTXID != ltx.TXID(s.Last):
		return false, damaged(s.name, "is damaged: it has the states from %d to %d", h.MinTXID, h.MaxTXID)
	case h.PageSize != r.full.PageSize:
		return false, damaged(s.name, "has pages of %d bytes, not %d", h.PageSize, r.full.PageSize)
	case h.NoChecksum() != s.part:
		return false, damaged(s.name, "is damaged: it has no checksums, or has some as part of a full copy")
	case s.First == r.last+1 && !s.part && r.post != 0 && h.PreApplyChecksum != r.post:
		return false, damaged(s.name, "does not follow what is before it: the checksums differ")
	}
	later = !s.part && r.isLast(s.segment) && r.isLater(time.UnixMilli(h.Timestamp))
	copying := s.part || s.Last < r.full.Last
	if err := r.writePages(decoder, s, later, copying); err != nil {
		return false, err
	}
	if err := decoder.Close(); err != nil {
		return false, damaged(s.name, "is damaged: %w", err)
	}
	if later {
		if s.First == r.last+1 {
			r.post = h.PreApplyChecksum // the same, if it was known
		}
		return true, nil
	}
	if !copying || r.full.First == r.full.Last && s.part && r.done.Objects+1 == r.full.Parts {
		if err := r.db.resize(h.Commit); err != nil {
			return false, orDamaged(s.name, err)
		}
	}
	if !s.part {
		r.last, r.ended, r.post = s.Last, time.UnixMilli(h.Timestamp), decoder.Trailer().PostApplyChecksum
	}
	return false, nil
}

// writePages reads the pages of an object and writes them, unless the object is later.
func (r *restorer) writePages(decoder *ltx.Decoder, s step, later, copying bool) error {
	for before := (ltx.PageHeader{}); ; {
		var page ltx.PageHeader
		err := decoder.DecodePage(&page, r.db.page)
		if errors.Is(err, io.EOF) && page.Pgno == 0 {
			return nil // Close returns an error if it was not the end
		}
		if err != nil {
			return damaged(s.name, "is damaged: %w", err)
		}
		if page.Pgno <= before.Pgno || page.Pgno > decoder.Header().Commit || page.Pgno == ltx.LockPgno(r.db.pageSize) {
			return damaged(s.name, "is damaged: it has page %d after page %d, of %d", page.Pgno, before.Pgno, decoder.Header().Commit)
		}
		before = page
		if later {
			continue
		}
		if err := r.db.write(page.Pgno, copying); err != nil {
			return orDamaged(s.name, err)
		}
	}
}

// errGap means that an object makes a database larger without the pages between.
var errGap = errors.New("is damaged: the database grows by pages that it does not have")

func orDamaged(name string, err error) error {
	if errors.Is(err, errGap) {
		return &damagedError{name, err}
	}
	return err
}

// database is a database while it is written. It grows only by pages that an object has, so no object
// can make it larger than all objects are.
type database struct {
	file     *os.File
	pageSize uint32
	pages    uint32 // that it has, of which none is missing
	page     []byte
}

// write writes page as the page of a number. While a full copy is not consistent, pages behind a gap
// are left out: the database was smaller when the copy came to its end, and what it grew by since is
// in the changes that follow.
func (d *database) write(number uint32, copying bool) error {
	next := uint64(d.pages) + 1
	if next == uint64(ltx.LockPgno(d.pageSize)) {
		next++
	}
	if uint64(number) > next {
		if copying {
			return nil
		}
		return errGap
	}
	_, err := d.file.WriteAt(d.page, int64(number-1)*int64(d.pageSize))
	d.pages = max(d.pages, number)
	return err
}

// resize cuts what is behind a number of pages.
func (d *database) resize(pages uint32) error {
	if lock := ltx.LockPgno(d.pageSize); pages > d.pages && (pages != lock || d.pages != lock-1) {
		return errGap
	}
	if pages == d.pages {
		return nil
	}
	d.pages = pages
	return d.file.Truncate(int64(pages) * int64(d.pageSize))
}

// checksums returns the checksums of all pages, and that of the database. It reads all of it.
func (d *database) checksums() (sums []ltx.Checksum, sum ltx.Checksum, err error) {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	from, hasher := bufio.NewReaderSize(d.file, 1<<20), ltx.NewHasher()
	for n := uint32(1); n <= d.pages; n++ {
		if _, err := io.ReadFull(from, d.page); err != nil {
			return nil, 0, err
		}
		one := ltx.Checksum(0)
		if n != ltx.LockPgno(d.pageSize) {
			one = ltx.ChecksumPageWithHasher(hasher, n, d.page)
		}
		sums = append(sums, one)
		sum ^= one
	}
	return sums, ltx.ChecksumFlag | sum, nil
}

// frames reads an object and looks at the sizes of its pages before the decoder does, which allocates
// whatever they say.
type frames struct {
	from     io.Reader
	pageSize uint32
	frame    frame  // what is read
	left     int    // bytes of it
	begun    []byte // of a page's header or size, what was read
}

type frame int

const (
	fileHeader frame = iota
	pageHeader
	pageBytes // the size of the page as it is stored
	pageData
	fileEnd // the index and the trailer, which the decoder reads in small pieces
)

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	if f.frame == fileEnd {
		return f.from.Read(p)
	}
	n, err := f.from.Read(p[:min(len(p), f.left)])
	f.left -= n
	if f.frame == pageHeader || f.frame == pageBytes {
		f.begun = append(f.begun, p[:n]...)
	}
	if f.left == 0 && !f.advance() {
		return 0, errors.New("a page has another size")
	}
	return n, err
}

// advance goes to the next frame.
func (f *frames) advance() bool {
	begun := f.begun
	f.begun = begun[:0]
	switch f.frame {
	case pageHeader:
		var h ltx.PageHeader
		if h.UnmarshalBinary(begun) != nil {
			return false
		}
		f.frame, f.left = pageBytes, 4
		if h.IsZero() {
			f.frame = fileEnd
		}
		return h.IsZero() || h.Flags == ltx.PageHeaderFlagSize
	case pageBytes:
		most := f.pageSize + f.pageSize/255 + 16 // of what can't be compressed
		size := binary.BigEndian.Uint32(begun)
		f.frame, f.left = pageData, int(size)
		return size > 0 && size <= most
	default:
		f.frame, f.left = pageHeader, ltx.PageHeaderSize
		return true
	}
}
