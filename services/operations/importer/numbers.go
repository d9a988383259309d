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
	// grouped is its value if commas separate thousands, and decimal that if they begin
	// fractions. They differ for a number such as 13,666 alone, which has no decimal value, -1, if
	// that is not whole.
	grouped, decimal int64
	shows            commas // what the number shows about commas
}

// separatedNumber matches a number whose thousands may be separated, with or without a fraction.
var separatedNumber = regexp.MustCompile(`^(\d{1,3}(?:([,.' _’\x{a0}\x{202f}])\d{3})+|\d+)(?:([.,])(\d+))?$`)

// parseSteps parses a whole number of steps, from 0 to most. Its thousands may be separated, and
// it may have a fraction of zeros.
func parseSteps(field string, most int64) (n writtenNumber, err error) {
	text := strings.TrimSpace(field)
	n.grouped, err = strconv.ParseInt(text, 10, 64)
	n.decimal = n.grouped
	if err != nil {
		n, err = parseSeparated(text)
	} else if len(text) <= 3 {
		n.shows = commasGroup // 13,666 beside 999 is whole
	}
	if err == nil && (n.grouped < 0 || n.grouped > most) {
		err = fmt.Errorf("%q is not a whole number of steps from 0 to %d", shortened(text), most)
	}
	return n, err
}

// parseSeparated parses a number with commas, dots or other separators. Its values are -1 if they
// are not whole.
func parseSeparated(text string) (n writtenNumber, err error) {
	m := separatedNumber.FindStringSubmatch(text)
	if m == nil {
		return writtenNumber{grouped: -1, decimal: -1}, nil
	}
	whole, group, point, fraction := m[1], m[2], m[3], m[4]
	if before, behind, _ := strings.Cut(whole, group); point == "" && len(text) <= len("123,456") && (group == "," || group == ".") {
		switch {
		case before[0] == '0':
			whole, group, point, fraction = before, "", group, behind
		case group == ".":
			return n, fmt.Errorf("%q may be %s, or %s and a fraction: write it without the dot", text, before+behind, before)
		default:
			n.grouped, n.decimal = wholeNumber(before+behind, ""), wholeNumber(before, behind)
			return n, nil
		}
	}
	switch {
	case group == point: // 1,234,56
		fraction = "?"
	case point == ",":
		n.shows = commasDecimal
	case group == ",":
		n.shows = commasGroup
	}
	n.grouped = wholeNumber(strings.ReplaceAll(whole, group, ""), fraction)
	n.decimal = n.grouped
	return n, nil
}

// wholeNumber returns the value of a number, or -1 if it is not whole.
func wholeNumber(digits, fraction string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strings.Trim(fraction, "0") != "" {
		return -1
	}
	return n
}
