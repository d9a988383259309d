package importer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// commas says what a comma in the numbers of a file is.
type commas int

const (
	commasUnknown commas = iota
	commasGroup          // separates thousands: 13,666 is 13666
	commasDecimal        // begins a fraction: 13,5
)

// writtenNumber is a number as a line has it.
type writtenNumber struct {
	whole int64
	// shows is what the number shows about commas. If waits is set, it has the form of 13,666
	// and shows nothing: decimal is its value if commas begin fractions, or -1 if that is not
	// whole.
	shows   commas
	waits   bool
	decimal int64
}

var (
	// onePart is a number with one comma or dot, groupedNumber one whose thousands are
	// separated, with or without a fraction.
	onePart       = regexp.MustCompile(`^(\d+)([.,])(\d+)$`)
	groupedNumber = regexp.MustCompile(`^(\d{1,3}(?:([,.' _’\x{a0}\x{202f}])\d{3})+)(?:([.,])(\d+))?$`)
)

// parseSteps parses a whole number of steps, from 0 to most. Its thousands may be separated, and
// it may have a fraction of zeros.
func parseSteps(field string, most int64) (n writtenNumber, err error) {
	text := strings.TrimSpace(field)
	n.whole, err = strconv.ParseInt(text, 10, 64)
	if err == nil {
		if len(text) <= 3 {
			n.shows = commasGroup // 13,666 beside 999 is whole
		}
	} else if err = n.parseSeparated(text); err != nil {
		return n, err
	}
	if n.whole < 0 || n.whole > most {
		return n, notSteps(text, most)
	}
	return n, nil
}

// notSteps returns the error of a field that is no number of steps.
func notSteps(text string, most int64) error {
	return fmt.Errorf("%q is not a whole number of steps from 0 to %d", shortened(text), most)
}

// parseSeparated parses a number with commas, dots or other separators.
func (n *writtenNumber) parseSeparated(text string) error {
	n.whole = -1
	if m := onePart.FindStringSubmatch(text); m != nil {
		return n.parseOnePart(m[1], m[2], m[3])
	}
	m := groupedNumber.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	digits, group, point, fraction := m[1], m[2], m[3], m[4]
	if group == point || strings.Trim(fraction, "0") != "" {
		return nil
	}
	whole := strings.ReplaceAll(digits, group, "")
	if strings.Trim(whole, "0123456789") != "" {
		return nil // two kinds of separators
	}
	switch {
	case group == ",":
		n.shows = commasGroup
	case point == ",":
		n.shows = commasDecimal
	}
	var err error
	if n.whole, err = strconv.ParseInt(whole, 10, 64); err != nil {
		n.whole = -1
	}
	return nil
}

// parseOnePart parses a number with one separator.
func (n *writtenNumber) parseOnePart(before, separator, behind string) error {
	zeros := strings.Trim(behind, "0") == ""
	whole, err := strconv.ParseInt(before, 10, 64)
	if err != nil || !zeros {
		whole = -1
	}
	if len(behind) != 3 || len(before) > 3 || before[0] == '0' { // no separator of thousands
		n.whole = whole
		if separator == "," {
			n.shows = commasDecimal
		}
		return nil
	}
	if separator == "." {
		return fmt.Errorf("%q may be %s, or %s and a fraction: write it without the dot", before+separator+behind, before+behind, before)
	}
	n.whole, err = strconv.ParseInt(before+behind, 10, 64)
	n.waits, n.decimal = true, whole
	return err
}
