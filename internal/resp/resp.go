// Package resp reads replies of Redis that are lists of whole numbers. A friend
// ranking reads hundreds of them; the client's own decoding makes a string or
// a float of each.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// errReply is a reply that is no list of numbers.
var errReply = errors.New("redis answered something other than a list of numbers")

// Numbers reads a reply as it came over the wire, in RESP2 or RESP3: an array
// or set of bulk strings, integers or doubles, each a whole number from 0 to
// 2^53. A null is 0. One allocation.
func Numbers(raw []byte) ([]int64, error) {
	kind, head, rest, err := line(raw)
	if err != nil || (kind != '*' && kind != '~') {
		return nil, errReply
	}
	n, err := strconv.Atoi(string(head))
	// Every element takes three bytes or more.
	if err != nil || n < 0 || n > len(rest)/3 {
		return nil, errReply
	}
	numbers := make([]int64, n)
	for i := range numbers {
		if numbers[i], rest, err = number(rest); err != nil {
			return nil, err
		}
	}
	if len(rest) != 0 {
		return nil, errReply
	}
	return numbers, nil
}

// line takes the type and the text up to the line's end.
func line(raw []byte) (kind byte, text, rest []byte, err error) {
	end := bytes.IndexByte(raw, '\n')
	if end < 2 || raw[end-1] != '\r' {
		return 0, nil, nil, errReply
	}
	return raw[0], raw[1 : end-1], raw[end+1:], nil
}

// number takes one element.
func number(raw []byte) (n int64, rest []byte, err error) {
	kind, text, rest, err := line(raw)
	if err != nil {
		return 0, nil, err
	}
	switch kind {
	case '_':
		return 0, rest, nil
	case ':', ',':
		n, err := whole(text)
		return n, rest, err
	case '$':
		size, err := strconv.Atoi(string(text))
		if err != nil || size > len(rest)-2 {
			return 0, nil, errReply
		}
		if size < 0 {
			return 0, rest, nil
		}
		if rest[size] != '\r' || rest[size+1] != '\n' {
			return 0, nil, errReply
		}
		n, err := whole(rest[:size])
		return n, rest[size+2:], err
	default:
		return 0, nil, errReply
	}
}

// whole reads a whole number: its digits, or a float that is one.
func whole(text []byte) (int64, error) {
	if len(text) == 0 {
		return 0, errReply
	}
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<53 {
			return wholeFloat(text)
		}
		n = n*10 + int64(c-'0')
	}
	if n > 1<<53 {
		return 0, fmt.Errorf("%q: %w", text, errReply)
	}
	return n, nil
}

func wholeFloat(text []byte) (int64, error) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > 1<<53 {
		return 0, fmt.Errorf("%q: %w", text, errReply)
	}
	return int64(f), nil
}
