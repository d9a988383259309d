package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as a whole number and a unit: 64 MB.
type Size int64

// The units of sizes.
const (
	KB Size = 1000
	MB      = 1000 * KB
	GB      = 1000 * MB
)

// parseSize parses a text such as 64 MB, 64MB, 1 GB or 0.
func parseSize(text string) (Size, error) {
	if text == "0" {
		return 0, nil
	}
	for unit, bytes := range map[string]Size{"KB": KB, "MB": MB, "GB": GB} {
		if number, ok := strings.CutSuffix(strings.ToUpper(text), unit); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
			if err == nil && n >= 0 {
				return Size(n) * bytes, nil
			}
		}
	}
	return 0, errors.New("must be a size such as 64 MB: a whole number and KB, MB or GB")
}

// String returns the size in the largest unit in which it is a whole number.
func (s Size) String() string {
	switch {
	case s == 0:
		return "0"
	case s >= GB && s%GB == 0:
		return fmt.Sprintf("%d GB", s/GB)
	case s >= MB && s%MB == 0:
		return fmt.Sprintf("%d MB", s/MB)
	default:
		return fmt.Sprintf("%d KB", s/KB)
	}
}
