package resp_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/resp"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw  string
		want []int64
		ok   bool
	}{
		{"*0\r\n", []int64{}, true},
		{"~2\r\n$1\r\n7\r\n$4\r\n1001\r\n", []int64{7, 1001}, true},
		{"*4\r\n,9007199254740991\r\n_\r\n$-1\r\n:5\r\n", []int64{9007199254740991, 0, 0, 5}, true},
		{"*2\r\n,9.007199254740991e+15\r\n$5\r\n1e+06\r\n", []int64{9007199254740991, 1_000_000}, true},
		{"*1\r\n,9007199254740992\r\n", []int64{1 << 53}, true},
		{"", nil, false},
		{"\n", nil, false},
		{"*1\r\n", nil, false},
		{"*-1\r\n", nil, false},
		{"*2\r\n:1\r\n", nil, false},
		{"*1\r\n:1\r\n:2\r\n", nil, false},
		{"*999999999999\r\n:1\r\n", nil, false},
		{"*1\r\n$5\r\n12\r\n", nil, false},
		{"*1\r\n$2\r\n123\r\n", nil, false},
		{"*1\r\n$0\r\n\r\n", nil, false},
		{"*1\r\n,1.5\r\n", nil, false},
		{"*1\r\n,-1\r\n", nil, false},
		{"*1\r\n,nan\r\n", nil, false},
		{"*1\r\n,inf\r\n", nil, false},
		{"*1\r\n:9007199254740993\r\n", nil, false},
		{"*1\r\n:99999999999999999999999\r\n", nil, false},
		{"*1\r\n$3\r\nann\r\n", nil, false},
		{"*1\r\n*1\r\n:1\r\n", nil, false},
		{"-ERR no\r\n", nil, false},
		{"$1\r\n7\r\n", nil, false},
	}
	for _, tt := range tests {
		got, err := resp.Numbers([]byte(tt.raw))
		if (err == nil) != tt.ok || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v, want %v", tt.raw, got, err, tt.want)
		}
	}
}

// However Redis writes a number, it is read back.
func TestNumbersReadsWhatRedisWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Int64Range(0, 1<<53)).Draw(t, "numbers")
		var raw strings.Builder
		fmt.Fprintf(&raw, "*%d\r\n", len(want))
		for _, n := range want {
			text := strconv.FormatInt(n, 10)
			switch rapid.IntRange(0, 3).Draw(t, "form") {
			case 0:
				fmt.Fprintf(&raw, "$%d\r\n%s\r\n", len(text), text)
			case 1:
				fmt.Fprintf(&raw, ":%s\r\n", text)
			case 2:
				fmt.Fprintf(&raw, ",%s\r\n", text)
			default:
				fmt.Fprintf(&raw, ",%s\r\n", strconv.FormatFloat(float64(n), 'g', 17, 64))
			}
		}
		got, err := resp.Numbers([]byte(raw.String()))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %v, %v, want %v", raw.String(), got, err, want)
		}
	})
}

func FuzzNumbers(f *testing.F) {
	f.Add([]byte("~2\r\n$1\r\n7\r\n$4\r\n1001\r\n"))
	f.Add([]byte("*3\r\n,1e+3\r\n_\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		numbers, err := resp.Numbers(raw)
		if err != nil && numbers != nil {
			t.Errorf("%q: both %v and %v", raw, numbers, err)
		}
		for _, n := range numbers {
			if n < 0 || n > 1<<53 {
				t.Errorf("%q: read %d", raw, n)
			}
		}
	})
}
