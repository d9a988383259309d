package archive

import (
	"encoding/binary"
	"io"
	"sync"
)

// copyReader encodes rows in the binary format of COPY: a header; for each row
// the number of its fields, and each field after its length; a trailer.
//
// If the context of a copy ends, the driver returns while a goroutine of its own
// may still read. The mutex keeps that goroutine from rows after stop.
type copyReader struct {
	mu      sync.Mutex
	stopped bool

	rows *rowReader
	buf  []byte
	out  []byte // the part of buf that was not read yet
	done bool
	err  error
}

const (
	// copyBuffer is the number of bytes encoded at a time.
	copyBuffer = 64 << 10
	// copyRow is the maximal length of an encoded row in bytes.
	copyRow = 64
	// postgresEpoch is 2000-01-01 in Unix milliseconds, where Postgres timestamps
	// start.
	postgresEpoch = 946_684_800_000
)

// Read implements io.Reader.
func (c *copyReader) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return 0, io.ErrClosedPipe
	}
	if len(c.out) == 0 {
		if c.done {
			return 0, io.EOF
		}
		if c.err = c.fill(); c.err != nil {
			return 0, c.err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// stop ends the reading and returns the error that has ended it before, if any.
// It waits for a Read in progress.
func (c *copyReader) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return c.err
}

// fill encodes the next bytes.
func (c *copyReader) fill() error {
	if c.buf == nil {
		c.buf = append(make([]byte, 0, copyBuffer), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	} else {
		c.buf = c.buf[:0]
	}
	for len(c.buf) <= copyBuffer-copyRow {
		r, ok, err := c.rows.next()
		if err != nil {
			return err
		}
		if !ok {
			c.done = true
			c.buf = append(c.buf, 0xff, 0xff)
			break
		}
		c.buf = binary.BigEndian.AppendUint16(c.buf, 4)
		c.buf = binary.BigEndian.AppendUint32(c.buf, 4)
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(r.rank))
		for _, field := range [...]int64{int64(r.user), r.score, (int64(r.reachedAt) - postgresEpoch) * 1000} {
			c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
			c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(field))
		}
	}
	c.out = c.buf
	return nil
}
