package backups

import (
	"io"

	"github.com/superfly/ltx"
)

// WritePage writes a page to an object. Pages come in order.
type WritePage = func(n uint32, content []byte) error

// Encode writes an object. pages writes its pages, and returns the checksum of the database after them, 0 for none.
func Encode(to io.Writer, header ltx.Header, pages func(WritePage) (after ltx.Checksum, err error)) error {
	encoder, err := ltx.NewEncoder(to)
	if err != nil {
		return err
	}
	if err := encoder.EncodeHeader(header); err != nil {
		return err
	}
	after, err := pages(func(n uint32, content []byte) error { return encoder.EncodePage(ltx.PageHeader{Pgno: n}, content) })
	if err != nil {
		return err
	}
	encoder.SetPostApplyChecksum(after)
	return encoder.Close()
}
